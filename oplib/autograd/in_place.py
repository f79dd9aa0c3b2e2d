"""Writing into a Tensor in place, with its history: the box takes over value and place on the tape.

An in-place op computes out of place, by the functional op, which is recorded as ever; then the box of the
written tensor takes over. No array is ever written into, so what was saved stays what it was, and the version
is kept only because it is part of torch's contract.
"""

from __future__ import annotations

from typing import Any

from oplib.errors import ArgumentError, AutogradError, describe
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, can_cast, upcalls
from oplib.tensor.escape import refuse_escape

from .formula_node import NOBODY, FormulaNode
from .node import TapeNode
from .tangents import carries_tangents, find_tangent, write_tangent

_TYPE_NAMES = {
    "float64": "Double",
    "float32": "Float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "bool": "Bool",
}


def refuse_leaf(tensor: Tensor, op: str) -> None:
    """Raises where a leaf that requires grad would be written while grad mode is on.

    Raises:
        AutogradError: it would.
    """
    if tensor._requires_grad and tensor._grad_fn is None and modes.grad_enabled:
        raise AutogradError(
            f"{op}: a leaf Variable that requires grad is being used in an in-place operation. "
            f"Got {describe(tensor._storage.array)}. Write under oplib.no_grad(), or into tensor.detach()."
        )
    if modes.state.watchers and (tangent := find_tangent(tensor)) is not None:
        refuse_leaf(tangent, op)  # it is written too


def write_in_place(tensor: Tensor, result: Tensor, op: str) -> Tensor:
    """Makes a tensor hold what was computed out of place from it.

    Args:
        tensor: the tensor that is written; :func:`refuse_leaf` has let it pass.
        result: the new value, fresh and held by nobody else, with its history.
        op: the in-place op, for errors.

    Returns:
        ``tensor``.

    Raises:
        ArgumentError: the value has another shape, or a dtype of a higher kind.
        TracingError: a traced value would be stored in a tensor that outlives the trace.
    """
    node = result._grad_fn
    own = result._storage
    fitted = _fit(tensor, result, op)
    refuse_escape(fitted._storage.array, tensor, op)
    storage = tensor._storage
    storage.write(fitted._storage.array)
    if isinstance(node, FormulaNode):
        _exempt(node, storage, own if fitted is result else None)
    if fitted._requires_grad:
        _take_over(tensor, fitted)
    if modes.state.watchers and carries_tangents():
        write_tangent(tensor, fitted, lambda held, new: write_in_place(held, new, op))
    return tensor


def _fit(tensor: Tensor, result: Tensor, op: str) -> Tensor:
    """Returns the result in the dtype of the tensor, if it can be stored there."""
    old, new = tensor._storage.array, result._storage.array
    if new.shape != old.shape:
        raise ArgumentError(
            f"{op}: output with shape {list(old.shape)} doesn't match the broadcast shape {list(new.shape)}. "
            f"Got {describe(new)} for {describe(old)}. Only the other operand is broadcast."
        )
    if new.dtype == old.dtype:
        return result
    if not can_cast(new.dtype, old.dtype):
        raise ArgumentError(
            f"{op}: result type {_name(new.dtype)} can't be cast to the desired output type "
            f"{_name(old.dtype)}. Got {describe(new)} for {describe(old)}. "
            f"Convert the tensor first, or use the op that is not in place."
        )
    return upcalls.to_dtype(result, old.dtype)


def _name(dtype: Any) -> str:
    """The name that torch's message has for a dtype."""
    return _TYPE_NAMES.get(dtype.name) or str(dtype)


def _exempt(node: FormulaNode, storage: Storage, own: Storage | None) -> None:
    """Lets the node that was just recorded keep what it saved of the tensor it writes.

    Its old value is no longer the tensor's; its new value, a saved output, is.
    """
    node.set_storages(_move(node.storages, storage, own))
    if node.kept is not None:
        values, storages, _ = node.kept
        moved = _move(storages, storage, own)
        node.kept = (values, moved, tuple([one.version for one in moved]))


def _move(storages: tuple[Storage, ...], written: Storage, own: Storage | None) -> tuple[Storage, ...]:
    """Gives what was saved of the written storage to nobody, and what was saved of the result to it."""
    return tuple([NOBODY if one is written else written if one is own else one for one in storages])


def _take_over(tensor: Tensor, result: Tensor) -> None:
    """Gives a tensor the place on the tape of the value it holds now.

    Hooks that were registered stay with the gradient that they were registered for, that of the old value; a
    retained gradient is that of the tensor, and so of the new one.
    """
    before: Any = tensor._grad_fn
    if before is not None and tensor._retains_grad:
        before._retained.pop(tensor._output_nr, None)
    tensor._requires_grad = True
    tensor._grad_fn = result._grad_fn
    tensor._output_nr = result._output_nr
    tensor._backward_hooks = None
    if tensor._retains_grad and isinstance(result._grad_fn, TapeNode):
        result._grad_fn.retain_grad(tensor)
