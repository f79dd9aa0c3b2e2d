"""Subscripts as one window, which joins the sequence of torch's views."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.autograd.recording.view_node import ViewNode, make_view_class
from oplib.builtin.shared_kernels.view_rules import pick
from oplib.builtin.values import can_move, find_start, is_traced_index
from oplib.protocols import Values
from oplib.tensor import Tensor
from oplib.tensor.shapes.symbolic import has_symbols, is_symbolic
from oplib.tensor.views import Window, make_window

from .subscripts import Choice, read_slice, read_subscripts, require_index, require_indices

SelectBackward0, SliceBackward0, UnsqueezeBackward0, AliasBackward0 = map(
    make_view_class, ("SelectBackward0", "SliceBackward0", "UnsqueezeBackward0", "AliasBackward0")
)


_ALL = slice(None)
_BOUNDS = frozenset({int, type(None)})
_INDEX_DTYPES = frozenset(
    np.dtype(name) for name in ("int8", "int16", "int32", "int64")
)  # uint8 may be a mask

_windows: dict[Any, Values] = {}
_MOST = 4096


def read_window(index: Any, whole: Tensor) -> Values:
    """Returns the window, starts and node class of subscripts, and the tensors among them with their dims."""
    shape: tuple[int, ...] = whole._storage.spec.shape
    if index.__class__ is int and shape:
        start = require_index(index, shape[0], 0)
        return pick(shape, 0), (start,) if shape[0] > 1 else (), SelectBackward0, (), ()
    key, tensors = _make_key(index)
    known = _windows.get((shape, key)) if key is not None else None
    if known is not None:
        window, own_dims = known
        if not tensors:
            return window
        for indices, dim in zip(tensors, own_dims, strict=True):
            require_indices(indices, shape[dim], dim)
        frame, starts, node_class, _, dims = window
        return frame, starts, node_class, tensors, dims
    items = read_subscripts(index, shape)
    reader = _WindowReader(shape)
    # as in torch, a tensor without dims is a position, unless other tensors select items
    is_window = not any(isinstance(item, Choice) or getattr(item, "ndim", 0) for item in items)
    reader.moves = is_window and can_move(whole)
    for item in items:
        reader.read(item)
    frame, starts = reader.window()
    window = frame, starts, reader.node_class, reader.indices, reader.dims
    if key is not None and not has_symbols(shape):
        if len(_windows) >= _MOST:
            _windows.clear()
        _windows[shape, key] = (*window[:3], (), reader.dims), reader.own_dims
    return window


def _make_key(index: Any) -> tuple[Values | None, list[Any]]:
    """Returns subscripts as a key of the cache, and the tensors of places among them.

    The key is None if a subscript is not plain, or may be a symbol.
    """
    key: list[Any] = []
    tensors: list[Any] = []
    for item in index if index.__class__ is tuple else (index,):
        kind = item.__class__
        if kind is slice:
            bounds = item.start, item.stop, item.step
            for bound in bounds:
                if bound.__class__ not in _BOUNDS:
                    return None, tensors
            key.append(bounds)
        elif kind is int or item is None or item is Ellipsis:
            key.append(item)
        elif kind is Tensor and item._storage.spec.dtype in _INDEX_DTYPES and item._storage.spec.shape:
            key.append(Tensor)
            tensors.append(item)
        else:
            return None, tensors
    return tuple(key), tensors


class _WindowReader:
    """Reads subscripts as one window, which joins the sequence of torch's views.

    Attributes:
        node_class: the class that is named after the last view.
        indices: the tensors among the subscripts.
        dims: the positions of these tensors in the shape of the window.
        own_dims: the dims of the whole that these tensors select from, but for those of bools.
        moves: whether a traced position is the start of a window.
    """

    moves = False

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._dim = 0
        self._sizes, self._steps = list(shape), [1] * len(shape)
        self._starts: list[Any] = [0] * len(shape)
        self._axes: list[int | None] = []
        self.node_class: type[ViewNode] = AliasBackward0
        self.indices: list[Any] = []
        self.dims: list[int] = []
        self.own_dims: list[int] = []

    def read(self, item: Any) -> None:
        """Reads the next subscript."""
        if item is None:
            self._axes.append(None)
            self.node_class = UnsqueezeBackward0
            return
        if isinstance(item, Choice):
            self._take(item.positions)
            self._axes.append(None)
            return
        dim, length = self._dim, self._shape[self._dim]
        self._dim += 1
        if isinstance(item, int) or (self.moves and is_traced_index(item)):
            is_known = isinstance(item, int)
            start = require_index(item, length, dim) if is_known else find_start(item, length, 1)
            self._starts[dim], self._sizes[dim] = start, 1
            self.node_class = SelectBackward0
            return
        if isinstance(item, slice):
            if item != _ALL:
                start, count, step = read_slice(item, length)
                self._starts[dim], self._sizes[dim] = start, count
                self._steps[dim] = step if is_symbolic(count) or count > 1 else 1
                self.node_class = SliceBackward0
        else:
            require_indices(item, length, dim)
            self._take(item)
            self.own_dims.append(dim)
        self._axes.append(dim)

    def _take(self, indices: Any) -> None:
        self.indices.append(indices)
        self.dims.append(len(self._axes))

    def window(self) -> tuple[Window, Values]:
        """Returns the window with its starts."""
        shape = tuple([1 if axis is None else self._sizes[axis] for axis in self._axes])
        frame = make_window(self._shape, tuple(self._sizes), tuple(self._steps), tuple(self._axes), shape)
        return frame, tuple([self._starts[axis] for axis in frame.moving])
