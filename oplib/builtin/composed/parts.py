"""Parts of an axis, as views: a given number of parts, or parts with given ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.rows.row import Function
from oplib.builtin.single_ops import ops
from oplib.builtin.values import read_values
from oplib.errors import ArgumentError
from oplib.tensor.devices.memory import require_memory

_BYTES_OF_A_PART = 512  # of a Tensor with its storage, at least


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Returns views of parts of a dim.

    Args:
        input: a tensor of any dtype, with at least one dim.
        indices_or_sections: the number of parts, of which the first ones are longer by one if necessary; or
            the ends of the parts except the last. An int, a sequence of ints, or a tensor whose values are
            known.

    Returns:
        A tuple of views.

    Raises:
        ArgumentError: the input has no dims, or the number of parts is less than 1.
        AllocationError: the memory does not hold so many parts.

    Gradient:
        The gradient of the view.

    Example:
        >>> oplib.tensor_split(oplib.tensor([1, 2, 3]), 2)
        (tensor([1, 2]), tensor([3]))
    """
    if not input.ndim:
        raise ArgumentError("expected at least a 1-dimensional tensor", "Use the tensor itself.")
    length = input.shape[dim] if -input.ndim <= dim < input.ndim else 0
    stops = [_clip(end, length) for end in _find_stops(indices_or_sections, length, "tensor_split")]
    pairs = zip([0, *stops], [*stops, length], strict=True)
    return tuple(ops.narrow(input, dim, start, max(stop - start, 0)) for start, stop in pairs)


def _find_stops(indices_or_sections: Any, length: int, op: str) -> list[int]:
    """Returns the ends of all parts except the last."""
    indices_or_sections = _read_sections(op, indices_or_sections)
    if not isinstance(indices_or_sections, int):
        return list(indices_or_sections)
    if indices_or_sections < 1:
        raise ArgumentError("number of sections must be larger than 0", "Give at least 1.")
    parts = (indices_or_sections, _BYTES_OF_A_PART)
    require_memory(f"{op} into {indices_or_sections} parts", parts, np.dtype(np.uint8), listed=True)
    short, longer = divmod(length, indices_or_sections)
    return [
        index * short + min(index, longer) for index in range(1, indices_or_sections)
    ]  # the first parts are longer


def _read_sections(op: str, given: Any) -> Any:
    """Returns the values of a tensor or array as Python's numbers, and others as they are."""
    return read_values(op, given).tolist() if hasattr(given, "dtype") else given


def _clip(index: int, length: int) -> int:
    return max(index + length, 0) if index < 0 else min(index, length)


_SPLIT_ALONG = """Returns views of parts of dim {dim}; ``hsplit`` of a vector splits its only dim.

Args:
    input: a tensor of any dtype with at least {least} dims.
    indices_or_sections: the number of parts of equal length, or the ends of the parts except the last.

Returns:
    A tuple of views.

Raises:
    ArgumentError: the input has fewer dims, or the number does not divide its length.

Gradient:
    The gradient of the view.

Example:
    >>> [part.shape for part in oplib.{name}(oplib.ones(2, 4, 6), 2)]
    {shapes}
"""


def _make_split_along(name: str, least: int, dim: int, shape: tuple[int, ...]) -> Function:
    def split_along(input: Any, indices_or_sections: Any) -> Any:
        if input.ndim < least:
            raise ArgumentError(
                f"requires a tensor with at least {least} dimensions", "Add one with unsqueeze."
            )
        along = 0 if input.ndim == 1 else dim
        sections = _read_sections(name, indices_or_sections)
        if isinstance(sections, int) and (sections < 1 or input.shape[along] % sections):
            raise ArgumentError(
                f"the size of dimension {along} is not divisible by the split_size",
                "Pass a divisor, or the ends of the parts.",
            )
        return tensor_split(input, sections, along)

    split_along.__name__ = name
    split_along.__doc__ = _SPLIT_ALONG.format(name=name, dim=dim, least=least, shapes=[shape] * 2)
    return split_along


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Returns views of parts of a dim, of given lengths.

    Args:
        input: a tensor of any dtype.
        split_sizes: the lengths, whose sum is that of the dim.

    Returns:
        A tuple of views.

    Raises:
        ArgumentError: the sum of the lengths is not that of the dim.

    Gradient:
        The gradient of the view.

    Example:
        >>> oplib.split_with_sizes(oplib.tensor([1, 2, 3]), [1, 2])
        (tensor([1]), tensor([2, 3]))
    """
    return ops.split(input, list(split_sizes), dim)


_UNSAFE = """As ``{name}``: a view of each part. Torch does not check later writes to them; oplib does.

Args:
    input: a tensor of any dtype.
    {parameter}.
    dim: the dim.

Returns:
    A tuple of views.

Raises:
    ArgumentError: the number does not fit.
    DimensionError: the dim does not exist.

Gradient:
    The gradient of the view.

Example:
    >>> oplib.unsafe_{name}(oplib.tensor([1, 2, 3]), 2)
    (tensor([1, 2]), tensor([3]))
"""


def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> Any:  # noqa: D103  described below
    return ops.chunk(input, chunks, dim)


def unsafe_split(input: Any, split_size: int, dim: int = 0) -> Any:  # noqa: D103  described below
    return ops.split(input, split_size, dim)


unsafe_chunk.__doc__ = _UNSAFE.format(name="chunk", parameter="chunks: the number of parts")
unsafe_split.__doc__ = _UNSAFE.format(name="split", parameter="split_size: the length of a part")

COMPOSED = (
    Composed(_make_split_along("hsplit", 1, 1, (2, 2, 6)), is_method=True, returns="Tensor[]"),
    Composed(_make_split_along("vsplit", 2, 0, (1, 4, 6)), is_method=True, returns="Tensor[]"),
    Composed(_make_split_along("dsplit", 3, 2, (2, 4, 3)), is_method=True, returns="Tensor[]"),
    Composed(split_with_sizes, is_method=True, returns="Tensor[]"),
    Composed(unsafe_chunk, is_method=True, returns="Tensor[]"),
    Composed(unsafe_split, is_method=True, returns="Tensor[]"),
    Composed(tensor_split, is_method=True, returns="Tensor[]"),
)
