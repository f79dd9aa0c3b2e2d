"""``x[...]``: a view of what numbers, slices and None select, of which tensors then select items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.autograd.recording.view import make_view
from oplib.builtin.values import is_traced_index
from oplib.library import OpOverload
from oplib.tensor import Tensor

from .subscript_window import read_window


def make_getitem(index_op: OpOverload) -> Callable[[Tensor, Any], Tensor]:
    """Makes ``getitem(whole, index)``; an array has subscripts of its own.

    Args:
        index_op: selects items by tensors: as in torch, all those among the subscripts are applied at once.
    """

    def getitem(whole: Tensor, index: Any) -> Tensor:
        frame, starts, node_class, indices, dims = read_window(index, whole)
        if not indices:
            return make_view(whole, frame, starts, node_class)
        view = whole if frame.is_identity else make_view(whole, frame, starts, node_class)
        result = index_op.call(view, indices, dims)
        if all(map(is_traced_index, indices)):
            result._read_only = "x[traced]"  # torch has a view here; on an explicit mesh it is a copy
        return result

    return getitem
