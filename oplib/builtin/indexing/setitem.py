"""``x[...] = value``: conversion of subscripts to a call of the op that stores, or to a write into a view."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from oplib.autograd.recording.in_place import check_may_write, update_in_place
from oplib.autograd.recording.view import make_view
from oplib.builtin.argument_checks.stored_numbers import check_fits
from oplib.builtin.in_place import require_tensor_to_write, store_in_place, store_number
from oplib.builtin.shared_kernels.promotion import convert_number
from oplib.builtin.single_ops import ops
from oplib.tensor import Tensor
from oplib.tensor.dtypes.rules import HALF
from oplib.tensor.views import ViewStorage
from oplib.tensor.views.chain import number_to_array

from .subscript_forms import is_array_subscript, list_subscripts, refuse_bytes_to_fill
from .subscript_window import read_window
from .subscripts import (
    Choice,
    check_mask,
    find_masked_window,
    is_static,
    is_unknown_mask,
    read_slice,
    read_subscripts,
    require_index,
    require_indices,
)

_NUMBERS = (bool, int, float, complex)
_PLAIN = frozenset(_NUMBERS)


def setitem_(input: Any, index: Any, value: Any) -> None:
    """Stores a value at the items that subscripts select: ``input[index] = value``."""
    require_tensor_to_write(input, "setitem_")
    spec = input._storage.spec
    dtype, shape = spec.dtype, spec.shape
    if value.__class__ in _PLAIN:
        stored = number_to_array(value, dtype, lambda: _to_value(input, value, dtype))
    else:
        stored = _to_value(input, value, dtype)
    mask = None if index.__class__ is int else _find_mask(index, shape)
    if mask is not None and (
        isinstance(value, _NUMBERS) or (is_unknown_mask(mask) and _has_one_item(stored))
    ):
        check_may_write(input, "setitem_", [value])
        item = _to_item(stored, dtype)
        update_in_place(input, lambda old: ops.where(mask, item, old), "setitem_")
        return
    original = index
    if index.__class__ is not int:
        index = tuple(list_subscripts(index))  # it is read twice below, and warned of once
        if (part := find_masked_window(index, shape)) and _has_one_item(stored):
            refuse_bytes_to_fill(original, value)
            unknown, window = part
            setitem_(input[window], _to_tensor(unknown).expand(shape)[window], value)
            return
    frame, starts, node_class, indices, _ = read_window(index, input)
    if indices:
        refuse_bytes_to_fill(original, value)
        check_may_write(input, "setitem_", [value])
        positions = read_positions(index, input)
        update_in_place(input, lambda old: ops.setitem(old, stored, *positions), "setitem_")
        return
    target = make_view(input, frame, starts, node_class)
    check_may_write(target, "setitem_", [value])
    if value.__class__ in _PLAIN or (isinstance(stored, np.ndarray) and not stored.ndim):
        store_number(target, stored)
    elif not _is_itself(target, value):
        store_in_place(target, stored)


def _is_itself(target: Tensor, value: Any) -> bool:
    """Tells whether the value is the target itself, as in ``x[i] += 1``: only the version is counted."""
    if not isinstance(value, Tensor) or value._root is None or value._root is not target._root:
        return False
    own: Any = target._storage
    other: Any = value._storage
    if not isinstance(other, ViewStorage):  # it got other contents
        return False
    try:
        same = own.base is other.base and own.chain is other.chain and own.starts == other.starts
    except jax.errors.ConcretizationTypeError:  # traced starts that may be equal
        return False
    if same:
        own.version += 1
    return same


def _to_value(input: Tensor, value: Any, dtype: Any) -> Any:
    """Returns a Tensor or an array as it is, and any other value as an array of the dtype, if it fits."""
    if isinstance(value, (Tensor, jax.Array)):
        return value
    if dtype not in HALF or isinstance(value, complex):  # half precision gives inf, as in torch
        check_fits("setitem_", input, value)
    return convert_number(value, dtype)


def _has_one_item(stored: Any) -> bool:
    return math.prod(stored.shape) == 1


def _to_item(stored: Any, dtype: Any) -> Any:
    """Returns a value of one item without dims, in the dtype of the Tensor that gets it."""
    if isinstance(stored, Tensor):
        return stored.reshape(()).to(dtype)
    return stored.reshape(()).astype(dtype)


def _to_tensor(mask: Any) -> Tensor:
    return mask if isinstance(mask, Tensor) else Tensor.from_array(mask)


def _find_mask(index: Any, shape: tuple[int, ...]) -> Any:
    """Returns a single mask, shaped to broadcast to the whole; None for other subscripts."""
    if not is_array_subscript(index) or index.dtype != np.bool_:
        return None
    if not index.ndim and not is_unknown_mask(index):
        return None
    check_mask(index, shape, 0)
    return index.reshape((*index.shape, *[1] * (len(shape) - index.ndim)))


@dataclass
class StorePositions:
    """The arguments of the op ``setitem`` that say where to store.

    Attributes:
        starts: the starts of windows that are operands, so that a loop over them compiles once.
        indices: the tensors among the subscripts.
        windows: for each dim the start (None for an operand), length and step.
        dims: the positions of the tensors in the shape.
        shape: the shape that the windows leave, without selected dims and with new ones.
    """

    starts: list[Any] = field(default_factory=list)
    indices: list[Any] = field(default_factory=list)
    windows: list[tuple[int | None, int, int]] = field(default_factory=list)
    dims: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)

    def add_window(self, start: int, length: int, step: int, *, is_operand: bool) -> None:
        """Adds the window of the next dim."""
        if is_operand:
            self.starts.append(np.asarray(start, np.int32))
        self.windows.append((None if is_operand else start, length, step))


def read_positions(index: Any, whole: Any) -> tuple[Any, ...]:
    """Converts subscripts to the arguments of ``setitem`` after the value."""
    positions, fixed = StorePositions(), is_static(whole)
    for item in read_subscripts(index, whole.shape):
        dim = len(positions.windows)
        if isinstance(item, Choice):
            positions.indices.append(item.positions)
            positions.dims.append(len(positions.shape))
        if item is None or isinstance(item, Choice):
            positions.shape.append(1)
        elif isinstance(item, slice):
            start, length, step = read_slice(item, whole.shape[dim])
            positions.add_window(start, length, step, is_operand=not fixed and length < whole.shape[dim])
            positions.shape.append(length)
        elif isinstance(item, int):
            positions.add_window(require_index(item, whole.shape[dim], dim), 1, 1, is_operand=not fixed)
        else:
            require_indices(item, whole.shape[dim], dim)
            positions.indices.append(item)
            positions.dims.append(len(positions.shape))
            positions.add_window(0, whole.shape[dim], 1, is_operand=False)
            positions.shape.append(whole.shape[dim])
    return positions.starts, positions.indices, tuple(positions.windows), positions.dims, positions.shape
