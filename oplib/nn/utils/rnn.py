"""``torch.nn.utils.rnn`` without its packed sequences: batches of sequences of different lengths."""

from __future__ import annotations

import math
import typing as _typing
from collections.abc import Iterable
from numbers import Real
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, describe
from oplib.modes import modes
from oplib.tensor import Tensor, upcalls
from oplib.tensor.devices.placement import placement_like
from oplib.tensor.factories.from_data import tensor
from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr
from oplib.tracebacks import entry_point

__all__ = ["pad_sequence", "unpad_sequence"]
__dir__ = _make_dir(globals())

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())


@entry_point
def pad_sequence(
    sequences: Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stacks sequences of different lengths, filled up to the longest.

    Sequences of data, which nothing differentiates, are put together by numpy on a CPU: a compiled call for
    each length of each batch would take much longer.

    Args:
        sequences: tensors of shapes (L_i, ...), equal but for the lengths; or one tensor, whose first
            dimension counts them.
        batch_first: the result begins with the number of sequences, and not with the length.
        padding_value: the number in the places that are filled.
        padding_side: on which side: ``"right"`` or ``"left"``.

    Returns:
        A tensor of shape (L, B, ...), or (B, L, ...) with ``batch_first``, of the dtype of the first one.

    Raises:
        ArgumentTypeError: no sequences of tensors, or the number is not a real one.
        ArgumentError: there are none, or their other dimensions differ.
        ArgumentValueError: another side.

    Gradient:
        Each sequence gets the gradient of its part.

    Source:
        ``torch.nn.utils.rnn.pad_sequence`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> pad_sequence([oplib.ones(2), oplib.ones(3)], batch_first=True)
        tensor([[1., 1., 0.],
                [1., 1., 1.]])
    """
    listed = _list_sequences(sequences)
    if padding_side not in ("left", "right"):
        raise ArgumentValueError(
            f"pad_sequence: Expected padding_side to be one of left or right. Got {padding_side!r}. Write "
            "padding_side='right'."
        )
    if not isinstance(padding_value, (Real, Tensor, jax.Array)):
        raise ArgumentTypeError(
            f"pad_sequence: argument 'padding_value' is a real number. Got {describe(padding_value)}, of "
            f"type {type(padding_value).__name__}. Write padding_value=0.0."
        )
    length = max(sequence.shape[0] for sequence in listed)
    fill = _fill_with_numpy if _are_data(listed) else _fill
    batch = fill(listed, length, padding_value, at_end=padding_side == "right")
    return batch if batch_first else upcalls.transpose(batch, 0, 1)


def _list_sequences(sequences: Any) -> list[Tensor]:
    listed = list(sequences) if isinstance(sequences, Iterable) else None
    if listed is None or not all(isinstance(sequence, Tensor) and sequence.ndim for sequence in listed):
        raise ArgumentTypeError(
            f"pad_sequence: Expected iterable for input sequences, of tensors with a dimension. Got "
            f"{describe(sequences)}, of type {type(sequences).__name__}. Give a list of tensors."
        )
    if not listed:
        raise ArgumentError(
            "pad_sequence: received an empty list of sequences. Got []. Give one tensor or more."
        )
    for sequence in listed:
        if sequence.shape[1:] != listed[0].shape[1:]:
            raise ArgumentError(
                f"pad_sequence: only the first dimensions may differ. Got {describe(listed[0])} and "
                f"{describe(sequence)}. Give sequences whose items have one shape."
            )
    return listed


def _are_data(sequences: list[Tensor]) -> bool:
    """Whether concrete tensors in one place on a CPU are read, and nothing follows what they become."""
    placement = _find_placement(sequences[0])
    return not modes.state.watchers and all(
        not isinstance(sequence._storage.owner.array, Tracer)
        and not sequence._requires_grad
        and sequence._tangent_slot is None
        and sequence.device.type == "cpu"
        and _find_placement(sequence) == placement
        for sequence in sequences
    )


def _find_placement(sequence: Tensor) -> Any:
    return placement_like(sequence._storage.owner.array, None)


def _fill_with_numpy(sequences: list[Tensor], length: int, value: float, *, at_end: bool) -> Tensor:
    first = sequences[0]
    batch = np.full((len(sequences), length, *first.shape[1:]), value, first.numpy().dtype)
    for row, sequence in zip(batch, sequences, strict=True):
        row[slice(0, sequence.shape[0]) if at_end else slice(length - sequence.shape[0], length)] = (
            sequence.numpy()
        )
    return tensor(batch, device=_find_placement(first))


def _fill(sequences: list[Tensor], length: int, value: float, *, at_end: bool) -> Tensor:
    rows: list[Tensor] = []
    for sequence in sequences:
        missing = length - sequence.shape[0]
        sides = [0, missing] if at_end else [missing, 0]
        padded = upcalls.pad(sequence, [0, 0] * (sequence.ndim - 1) + sides, value=value)
        rows.append(padded.to(sequences[0].dtype))
    return upcalls.stack(rows)


@entry_point
def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Takes sequences out of a batch again, as :func:`pad_sequence` has put them in, filled on the right.

    torch transposes its argument in place where ``batch_first`` is False. Here it stays as it is.

    Args:
        padded_sequences: a tensor of shape (L, B, ...), or (B, L, ...) with ``batch_first``.
        lengths: a tensor of shape (B,) with the length of each sequence. Its values are read.
        batch_first: the tensor begins with the number of sequences, and not with the length.

    Returns:
        Copies of the sequences, of shapes (L_i, ...).

    Raises:
        ArgumentTypeError: no tensors.
        ArgumentValueError: there are not as many lengths as sequences.
        ConcreteValueError: the lengths are traced.

    Gradient:
        Each sequence passes its gradient to its part.

    Source:
        ``torch.nn.utils.rnn.unpad_sequence`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> unpad_sequence(oplib.ones(2, 3), oplib.tensor([1, 3]), batch_first=True)
        [tensor([1.]), tensor([1., 1., 1.])]
    """
    _require_tensor("padded_sequences", padded_sequences)
    _require_tensor("lengths", lengths)
    batch = padded_sequences if batch_first else upcalls.transpose(padded_sequences, 0, 1)
    rows, counts = batch.unbind(0), [max(0, math.ceil(length)) for length in lengths.tolist()]
    if len(rows) != len(counts):
        raise ArgumentValueError(
            f"unpad_sequence: expected a length for each of the {len(rows)} sequences. Got {len(counts)}. "
            "Give as many, or another batch_first."
        )
    return [row[:count].clone() for row, count in zip(rows, counts, strict=True)]


def _require_tensor(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise ArgumentTypeError(
            f"unpad_sequence: argument {name!r} is a Tensor. Got {describe(value)}. Use oplib.tensor(...)."
        )
