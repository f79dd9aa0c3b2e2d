"""``x[...]``: conversion of subscripts to calls of the ops that select items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oplib.autograd.recording.view import make_view
from oplib.builtin.values import is_traced_index
from oplib.library import OpOverload
from oplib.tensor import Tensor

from .subscript_window import read_window
from .subscripts import Choice, is_static, read_slice, read_subscripts, require_index, require_indices


class Getter:
    """``getitem(input, index)``.

    As in torch, numbers, slices and None are applied first, one after the other, each as its own op. Then all
    tensors among the subscripts are applied at once.
    """

    def __init__(self, overloads: Mapping[str, OpOverload]) -> None:
        self._select, self._select_static = overloads["select"], overloads["select.static"]
        self._slice, self._slice_static = overloads["slice"], overloads["slice.static"]
        self._unsqueeze, self._alias = overloads["unsqueeze"], overloads["alias"]
        self._index = overloads["index"]

    def getitem(self, whole: Any, index: Any) -> Any:
        """Returns the items that subscripts select; a view of a Tensor, if no subscript is a tensor."""
        if isinstance(whole, Tensor):
            return look_at(whole, index, self._index)
        if index.__class__ is int and whole.ndim:
            return self._take_one(whole, 0, index)
        if index.__class__ is slice and whole.ndim:
            result = self._take_slice(whole, 0, index)
        else:
            result = self._take_all(whole, read_subscripts(index, whole.shape))
        return self._alias.call(result) if result is whole else result

    def _take_all(self, whole: Any, items: list[Any]) -> Any:
        dim = 0
        indices: list[Any] = []
        dims: list[int] = []
        for item in items:
            if isinstance(item, int):
                whole = self._take_one(whole, dim, item)
                continue
            if item is None or isinstance(item, Choice):
                whole = self._unsqueeze.call(whole, dim)
            if isinstance(item, slice):
                whole = self._take_slice(whole, dim, item)
            elif item is not None:
                item = item.positions if isinstance(item, Choice) else item
                require_indices(item, whole.shape[dim], dim)
                indices.append(item)
                dims.append(dim)
            dim += 1
        return self._index.call(whole, indices, dims) if indices else whole

    def _take_one(self, whole: Any, dim: int, index: int) -> Any:
        index = require_index(index, whole.shape[dim], dim)
        if is_static(whole):
            return self._select_static.call(whole, dim, [index])
        return self._select.call(whole, dim, index)

    def _take_slice(self, whole: Any, dim: int, item: slice) -> Any:
        start, length, step = read_slice(item, whole.shape[dim])
        if length == whole.shape[dim]:
            return whole
        if is_static(whole):
            return self._slice_static.call(whole, dim, [start, length, step])
        return self._slice.call(whole, dim, start, [length, step])


def look_at(whole: Tensor, index: Any, index_op: OpOverload) -> Tensor:
    """Returns the view that numbers, slices and None select; tensors then select items of the view."""
    frame, starts, node_class, indices, dims = read_window(index, whole)
    if not indices:
        return make_view(whole, frame, starts, node_class)
    view = whole if frame.is_identity else make_view(whole, frame, starts, node_class)
    result = index_op.call(view, indices, dims)
    if all(map(is_traced_index, indices)):
        result._read_only = "x[traced]"  # torch has a view here; on an explicit mesh it is a copy
    return result
