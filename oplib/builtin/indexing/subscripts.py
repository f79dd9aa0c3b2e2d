"""The subscripts of ``x[...]``: read and checked, one per dim."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.core import Tracer, max_dim, min_dim

from oplib.builtin.shared_kernels.dims import name_indices
from oplib.builtin.values import are_indices, is_traced, read_known
from oplib.errors import ArgumentTypeError, ArgumentValueError, DimensionError, TracingError, describe
from oplib.library.arguments.recording import unbox
from oplib.tensor.shapes.symbolic import is_symbolic
from oplib.tensor.storage.failed_reads import note_read
from oplib.tensor.storage.known import find_value

from .subscript_forms import is_array_subscript, list_subscripts


class Choice(NamedTuple):
    """A bool as a subscript: it adds a dim of length 1, and selects all or nothing of it.

    Attributes:
        positions: the single position of the new dim, or none.
    """

    positions: np.ndarray[Any, Any]


def is_static(whole: Any) -> bool:
    """Tells whether positions are static: this is better in a trace, and required over several devices."""
    array = unbox(whole)
    return isinstance(array, Tracer) or array.sharding.num_devices > 1


def read_subscripts(index: Any, shape: tuple[int, ...]) -> list[Any]:
    """Returns one subscript per dim, and None or a choice for each new dim; masks become positions.

    Raises:
        DimensionError: there are more subscripts than dims, or an invalid subscript.
        ArgumentTypeError: a subscript is a text.
        TracingError: a mask is traced, so its number of items is unknown.
    """
    items = [_read_one(item) for item in list_subscripts(index)]
    consumed = sum(map(_count_dims, items))
    if consumed > len(shape):
        raise DimensionError(
            f"index: too many indices for tensor of dimension {len(shape)}. Got {consumed}. Remove some."
        )
    rest = [slice(None)] * (len(shape) - consumed)
    where = next((index for index, item in enumerate(items) if item is Ellipsis), len(items))
    items = [*items[:where], *rest, *(item for item in items[where + 1 :] if item is not Ellipsis)]
    return [subscript for item in _with_dims(items) for subscript in _spread_mask(*item, shape)]


def _with_dims(items: list[Any]) -> list[tuple[Any, int]]:
    """Pairs each subscript with the first dim of the whole that it covers."""
    pairs: list[tuple[Any, int]] = []
    dim = 0
    for item in items:
        pairs.append((item, dim))
        dim += _count_dims(item)
    return pairs


def _read_one(item: Any) -> Any:
    if isinstance(item, slice):
        _check_step(item.step)
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (list, tuple, range)):
        item = np.asarray(item)
        item = item if item.size else item.astype(np.int32)
    if isinstance(item, bool):
        return Choice(np.zeros(int(item), np.int32))
    if is_array_subscript(item) and (item.dtype == np.bool_ or np.issubdtype(item.dtype, np.integer)):
        is_known_mask = item.dtype == np.bool_ and find_value(unbox(item)) is not None
        if item.ndim or (is_traced(item) and not is_known_mask):
            return item
        return _read_one(bool(item)) if item.dtype == np.bool_ else int(item)
    if not hasattr(item, "__index__") or is_array_subscript(item):
        is_text = isinstance(item, (str, bytes)) or (is_array_subscript(item) and item.dtype.kind in "SU")
        raise (ArgumentTypeError if is_text else DimensionError)(  # as torch tells them apart
            "index: only integers, slices (`:`), ellipsis (`...`), None and long, int or bool tensors are "
            f"valid indices. Got {describe(item)}. Convert it."
        )
    return operator.index(item)


def _count_dims(item: Any) -> int:
    """Returns the number of dims of the whole that a subscript covers."""
    if item is None or item is Ellipsis or isinstance(item, Choice):
        return 0
    return item.ndim if is_array_subscript(item) and item.dtype == np.bool_ else 1


def _spread_mask(item: Any, dim: int, shape: tuple[int, ...]) -> Sequence[Any]:
    """Converts a mask to the positions of its true items, one array of integers per dim."""
    if not is_array_subscript(item) or item.dtype != np.bool_:
        return (item,)
    check_mask(item, shape, dim)
    array = find_value(unbox(item))
    if array is None:
        raise note_read(
            TracingError(
                "index: the number of items under a traced mask is not known. Got "
                f"{describe(unbox(item))}. Use oplib.where(mask, x, other), or index outside the trace."
            )
        )
    return [indices.astype(np.int32) for indices in np.nonzero(np.asarray(array))]


def is_unknown_mask(item: Any) -> bool:
    """Tells whether a subscript is a mask whose items are not known while a program is traced."""
    if not is_array_subscript(item) or item.dtype != np.bool_:
        return False
    return is_traced(item) and find_value(unbox(item)) is None


def find_masked_window(items: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, tuple[Any, ...]] | None:
    """Splits subscripts into their one unknown mask, shaped to broadcast to the whole, and a window.

    Returns:
        Both; None if there is no such mask, or another subscript that is no part of a window.
    """
    where = [position for position, item in enumerate(items) if is_unknown_mask(item)]
    if len(where) != 1:
        return None
    mask, before, behind = items[where[0]], items[: where[0]], items[where[0] + 1 :]
    read = [_read_one(item) for item in (*before, *behind)]
    if any(isinstance(item, Choice) or getattr(item, "ndim", 0) for item in read):
        return None
    dim = sum(map(_count_dims, read[: len(before)]))
    if any(item is Ellipsis for item in before):
        dim = len(shape) - mask.ndim - sum(map(_count_dims, read[len(before) :]))
    check_mask(mask, shape, dim)
    rest = [1] * (len(shape) - dim - mask.ndim)
    return mask.reshape((*[1] * dim, *mask.shape, *rest)), (*before, *[slice(None)] * mask.ndim, *behind)


def check_mask(mask: Any, shape: tuple[int, ...], dim: int) -> None:
    """Checks that a mask has the sizes of the dims from ``dim`` on.

    Raises:
        DimensionError: it has other sizes.
    """
    own = shape[dim : dim + mask.ndim]
    if tuple(mask.shape) != own:
        raise DimensionError(
            f"index: the shape of the mask at index {dim} does not match the shape of the indexed tensor. "
            f"Got {describe(mask)} for {list(own)}. Give a mask of that shape."
        )


def _check_step(step: Any) -> None:
    if step is not None and operator.index(step) <= 0:
        raise ArgumentValueError(
            f"index: slice step must be positive, step must be greater than zero. Got {step}. "
            f"Take the items with a positive step."
        )


def read_slice(item: slice, length: int) -> tuple[int, int, int]:
    """Returns the start, the number of items and the step of a slice."""
    _check_step(item.step)
    step = 1 if item.step is None else operator.index(item.step)
    if is_symbolic(length):
        return _read_symbolic_slice(item, length, step)
    start, stop, _ = item.indices(length)
    count = max(0, -((start - stop) // step))
    return (start if count else 0), count, step


def _read_symbolic_slice(item: slice, length: Any, step: int) -> tuple[Any, Any, int]:
    """Resolves a slice as ``slice.indices`` for a symbolic length; unknown results are symbols too."""

    def clip(index: Any, default: Any) -> Any:
        if index is None:
            return default
        return max_dim(index + length, 0) if index < 0 else min_dim(index, length)

    start = clip(item.start, 0)
    return start, max_dim(-((start - clip(item.stop, length)) // step), 0), step


def require_index(index: int, length: int, dim: int) -> int:
    """Returns a position counted from the start.

    Raises:
        DimensionError: the position does not exist.
    """
    if not -length <= index < length:
        raise DimensionError(
            f"index {index} is out of bounds for dimension {dim} with size {length}. "
            f"Got {index}. {name_indices(length)}"
        )
    return index + length if index < 0 else index


def require_indices(index: Any, length: int, dim: int) -> None:
    """Raises if a tensor contains an invalid position; a traced position is clamped later, as in JAX.

    Raises:
        DimensionError: the tensor contains one.
    """
    if are_indices(index, length):
        return
    values = read_known(index)
    if values is None or not values.size:
        return
    require_index(int(values.min()), length, dim)
    require_index(int(values.max()), length, dim)
