"""In-place forms that give a tensor another size and other strides in its memory."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from operator import index
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp

from oplib.autograd.recording.in_place import check_may_turn, note_history, write_in_place
from oplib.autograd.recording.view import turn_in_place
from oplib.autograd.recording.view_node import make_view_class
from oplib.builtin.in_place import require_tensor_to_write
from oplib.builtin.tables.shapes.memory import as_strided
from oplib.errors import ArgumentError, AutogradError, TracingError, describe
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.shapes.filling import read_size
from oplib.tensor.storage.escape import refuse_escape, refuse_outside
from oplib.tensor.storage.memory_format import check_format
from oplib.tensor.storage.overlay import overlays
from oplib.tensor.views import AliasStorage, ViewStorage
from oplib.tensor.views.frame import contiguous_strides
from oplib.tensor.views.lineage import has_views
from oplib.tracebacks import find_frame_outside, is_inside

_NODE = make_view_class("AsStridedBackward0")


def as_strided_(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """As ``as_strided``, in place: ``input`` itself shows these items, and is returned.

    Args:
        input: a Tensor of which there are no views.
        size: the shape.
        stride: the distance of neighbours in memory, in items, for each dimension.
        storage_offset: the place of the first item in memory; by default that of the tensor.

    Returns:
        The tensor itself.

    Raises:
        ArgumentTypeError: it is no Tensor.
        ArgumentError: the tensor does not contain the items, or it has views.
        AutogradError: it is a leaf that requires grad.

    Gradient:
        The gradient of ``as_strided``.

    Source:
        torch.Tensor.as_strided_

    Example:
        >>> as_strided_(oplib.arange(6.0), (2, 2), (1, 2))
        tensor([[0., 2.],
                [1., 3.]])
    """
    require_tensor_to_write(input, "as_strided_")
    refuse_outside(input, "as_strided_")
    check_may_turn(input, "as_strided_")
    return _turn(
        input,
        "as_strided_",
        tuple(map(index, size)),
        tuple(map(index, stride)),
        storage_offset if storage_offset is None else index(storage_offset),
    )


def resize_(input: Any, *sizes: Any, memory_format: Any = None) -> Any:
    """Gives a tensor another shape in its memory, in place, and returns it.

    The items keep their order in memory. Where the new shape has more items than memory, zeros follow; where
    it has fewer, the tensor shows the first ones.

    Args:
        input: a Tensor that does not require grad. Where it grows, no other tensor may share its memory.
        *sizes: the shape, as integers or as one sequence.
        memory_format: the order of the dimensions in memory, which changes nothing.

    Returns:
        The tensor itself.

    Raises:
        ArgumentTypeError: it is no Tensor, no size is given, or the format is another object.
        ArgumentError: a size is negative, another tensor shares the memory, or the format needs another
            number of dimensions.
        AutogradError: the tensor requires grad.
        AllocationError: the memory does not hold the result.

    Gradient:
        None: the tensor does not require grad.

    Source:
        torch.Tensor.resize_

    Example:
        >>> resize_(oplib.ones(2), 4)
        tensor([1., 1., 0., 0.])
    """
    require_tensor_to_write(input, "resize_")
    refuse_outside(input, "resize_")
    shape = read_size("resize_", sizes)
    check_format("resize_", memory_format, len(shape))
    if input.requires_grad:
        raise AutogradError(
            f"resize_: cannot resize variables that require grad. Got {describe(input)}. Use "
            "tensor.detach(), or reshape."
        )
    if shape == tuple(input.shape):  # it keeps its strides
        return input
    if math.prod(shape) > input.numel():
        return _grow(input, shape)
    return _turn(input, "resize_", shape, contiguous_strides(shape), None)


def resize_as_(input: Any, other: Any, *, memory_format: Any = None) -> Any:
    """Gives a tensor the shape of another, as ``resize_`` does.

    Args:
        input: the tensor, as for ``resize_``.
        other: the tensor with the shape.
        memory_format: changes nothing.

    Returns:
        The tensor itself.

    Raises:
        ArgumentTypeError: it is no Tensor, or the format is another object.
        ArgumentError: another tensor shares the memory, or the format needs another number of dimensions.
        AutogradError: the tensor requires grad.
        AllocationError: the memory does not hold the result.

    Gradient:
        None: the tensor does not require grad.

    Source:
        torch.Tensor.resize_as_

    Example:
        >>> resize_as_(oplib.ones(4), oplib.zeros(1, 2))
        tensor([[1., 1.]])
    """
    return resize_(input, tuple(other.shape), memory_format=memory_format)


def _turn(tensor: Tensor, op: str, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None) -> Any:
    if has_views(tensor):
        raise ArgumentError(
            "views of the tensor share its memory, and they show parts of its shape",
            "Delete the views first, or use as_strided, which makes a view.",
        )
    frame, starts = as_strided(tensor._storage.spec, size, stride, offset)
    return turn_in_place(tensor, frame, starts, _NODE, op)


def write_enlarging(tensor: Tensor, result: Tensor, op: str, seen: Any) -> Tensor | None:
    """As ``write_in_place``, for a tensor that takes the shape of the result.

    Args:
        tensor: the tensor to write. Where its shape changes no other tensor may share its memory.
        result: the new value with its history.
        op: the in-place op, for errors.
        seen: the array of the owner before the result was computed.

    Raises:
        ArgumentError: another tensor shares the memory.
        TracingError: the tensor is from outside of a function that is compiled.
    """
    shape = result._storage.spec.shape
    if shape == tensor._storage.spec.shape or modes.region is not None:  # the body of a loop keeps shapes
        return write_in_place(tensor, result, op, seen)
    refuse_shared(tensor, op, shape, held=1)  # generated code has a variable that holds the storage
    refuse_escape(result._storage.array, tensor, op)
    if not tensor._storage.exchange(seen, result._storage.array):
        return None
    note_history(tensor, result)
    return tensor


def _grow(tensor: Tensor, shape: tuple[int, ...]) -> Any:
    refuse_shared(tensor, "resize_", shape, held=0)
    storage = tensor._storage
    items = storage.array.reshape(-1)
    require_memory("resize_", shape, tensor.dtype)
    more = jnp.zeros(math.prod(shape) - items.size, items.dtype)
    whole = jnp.concatenate([items, more]).reshape(shape)
    refuse_escape(whole, tensor, "resize_")
    storage.write(whole)
    return tensor


def refuse_shared(tensor: Tensor, op: str, shape: Sequence[int], *, held: int | None) -> None:
    """Raises ArgumentError if another tensor shares the memory of one that gets another size.

    Args:
        tensor: the tensor.
        op: the in-place op, for errors.
        shape: the shape it would have.
        held: how many variables of the callers hold its storage; None in a trace, which holds it too.
    """
    overlay = overlays.current
    if overlay is not None and tensor._storage in overlay.cells:
        line = find_frame_outside(is_inside)[0]
        raise TracingError(
            f"{overlay.name}: {op} at {line.f_code.co_filename}:{line.f_lineno} resizes a tensor from "
            f"outside, from {tensor.numel()} to {math.prod(shape)} items. Got {describe(tensor)}. A compiled "
            f"program does not know who shares its memory. Use {op} outside of the function, or on a tensor "
            "that is made inside."
        )
    is_shared = isinstance(tensor._storage, (ViewStorage, AliasStorage)) or has_views(tensor)
    if is_shared or (held is not None and _count_references(tensor) > _ALONE + held):
        raise ArgumentError(
            f"{op}: the tensor must be resized from {tensor.numel()} to {math.prod(shape)} items, and other "
            f"tensors share its memory, which cannot change under them. Got {describe(tensor)}. Make a "
            f"tensor of its own with clone(), and use {op} on that."
        )


def _count_references(tensor: Any) -> int:
    """Counts what refers to the storage of a tensor: results of ``detach`` do, and are listed nowhere."""
    storage = tensor._storage
    return sys.getrefcount(storage)


_ALONE = _count_references(SimpleNamespace(_storage=object()))
RESIZING = {function.__name__: function for function in (as_strided_, resize_, resize_as_)}
