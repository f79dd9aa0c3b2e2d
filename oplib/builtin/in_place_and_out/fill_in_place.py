"""Values put at places that tensors name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oplib.builtin.argument_checks.stored_numbers import check_fits
from oplib.builtin.indexing.subscripts import read_subscripts, require_indices
from oplib.builtin.overload_resolution.operands import take_operand
from oplib.builtin.rows.choice import OverloadChoice
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, ArgumentTypeError
from oplib.library import OpOverload
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, box
from oplib.tensor.shapes.filling import find_shared_like


def choose_masked_fill(overloads: Mapping[str, OpOverload]) -> OverloadChoice:
    """Makes ``masked_fill(input, mask, value)``, where the value may be a number or a tensor of one item."""
    on_tensor, on_number = overloads["masked_fill.Tensor"], overloads["masked_fill.Scalar"]

    def masked_fill(input: Any, mask: Any, value: Any) -> Any:
        value = take_operand(value)
        if isinstance(value, (bool, int, float, complex)):
            check_fits("masked_fill", input, value)
            return on_number.call(input, mask, value)
        if getattr(value, "ndim", 0):
            raise ArgumentError("only supports a 0-dimensional value tensor", "Use where.")
        return on_tensor.call(input, mask, value)

    return OverloadChoice(masked_fill)


def choose_zero(overloads: Mapping[str, OpOverload]) -> OverloadChoice:
    """Makes ``zero(input)``: a small Tensor gets the array that ``zeros`` shares, and no kernel runs."""
    on_any = overloads["zero"]

    def zero(input: Any) -> Any:
        state = modes.state
        is_special = state.watchers or state.inference or state.region
        if input.__class__ is Tensor and not (is_special or (input._requires_grad and state.grad_enabled)):
            storage = input._storage
            if storage.__class__ is Storage:
                shared = find_shared_like(storage.array, 0)
                if shared is not None:
                    return box(shared)
        return on_any.call(input)

    return OverloadChoice(zero)


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Returns the tensor with values at places, or with these added.

    Args:
        input: the tensor.
        indices: for each dimension integers that name places, a mask of bools, or None for all.
        values: broadcasts to what the indices name.
        accumulate: adds to what is there; places may then be named several times.

    Returns:
        A tensor like the input.

    Raises:
        DimensionError: there is no such place.

    Gradient:
        The gradient of the written items goes to the values, and the rest to the tensor. If the values are
        accumulated, the tensor gets all of it.

    Source:
        torch.index_put

    Example:
        >>> import oplib
        >>> places = oplib.tensor([0, 0])
        >>> oplib.index_put(oplib.zeros(2), (places,), oplib.ones(2), accumulate=True)
        tensor([2., 0.])
    """
    _check_put(input, indices, values)
    subscripts = tuple(slice(None) if index is None else index for index in indices)
    indexed: list[Any] = []
    dims: list[int] = []
    for dim, item in enumerate(read_subscripts(subscripts, tuple(input.shape))):
        if not isinstance(item, slice):
            require_indices(item, input.shape[dim], dim)
            indexed.append(item)
            dims.append(dim)
    return ops._index_put(input, indexed, values, dims, accumulate)


def _check_put(input: Any, indices: Any, values: Any) -> None:
    if not isinstance(indices, (tuple, list)):
        raise ArgumentTypeError("argument 'indices' is a tuple of tensors", "Put it into one: (index,).")
    if getattr(values, "dtype", input.dtype) != input.dtype:
        raise ArgumentError(
            "the values and the tensor must have the same dtype", "Convert them: values.to(tensor.dtype)."
        )
