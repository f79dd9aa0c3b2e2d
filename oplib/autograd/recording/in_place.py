"""Writing into a Tensor in place, with its history: the box takes over value and place on the tape.

An in-place op computes out of place, by the functional op, which is recorded as ever; then the box of the
written tensor takes over. No array is ever written into, so what was saved stays what it was, and the version
is kept only because it is part of torch's contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.tangents import carries_tangents, find_tangent, write_tangent
from oplib.errors import ArgumentError, AutogradError, describe
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, can_cast, upcalls
from oplib.tensor.storage.escape import refuse_escape

from .formula_node import NOBODY, FormulaNode
from .rebase import note_write, rebase_history
from .view import refuse_rebase

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


def check_may_write(tensor: Tensor, op: str, operands: Sequence[Any] = ()) -> None:
    """Raises where a tensor may not be written in place, before anything is computed.

    Args:
        tensor: what is to be written.
        op: the in-place op.
        operands: what else it was given: a write is recorded if any of them requires grad.

    Raises:
        AutogradError: several items of the tensor are the same one, or writing it would not reach its base;
            or, with grad mode on, it is a leaf that requires grad, a view of one, or a view whose history
            may not be rebased.
    """
    storage: Any = tensor._storage
    if tensor._root is not None and not storage.chain.is_injective and storage.size:
        raise AutogradError(
            f"{op}: unsupported operation: more than one element of the written-to tensor refers to a single "
            f"memory location. Got {describe(storage)}, an expanded view. Write into tensor.clone()."
        )
    check_may_turn(tensor, op, operands)


def check_may_turn(tensor: Tensor, op: str, operands: Sequence[Any] = ()) -> None:
    """As :func:`check_may_write`, where no item is written and several may be the same one: ``t_``, say."""
    storage: Any = tensor._storage
    if tensor._read_only is not None:
        raise AutogradError(
            f"{op}: the tensor is the result of the view op {tensor._read_only}, and writing into it would "
            f"not reach its base: the op does more than move items. Got {describe(storage.spec)}. Write into "
            "the base, or into tensor.clone()."
        )
    if not modes.grad_enabled:
        return
    if tensor._requires_grad or any(map(has_required_grad, operands)):
        refuse_leaf(tensor, op)
    if modes.state.watchers and (tangent := find_tangent(tensor)) is not None and tangent._requires_grad:
        refuse_leaf(tangent, op)  # it is written too


def has_required_grad(value: Any) -> bool:
    """Whether a tensor requires grad, or one in a list does; nothing else can."""
    if isinstance(value, (list, tuple)):
        members: Sequence[Any] = value
        return any(map(has_required_grad, members))
    return isinstance(value, Tensor) and value._requires_grad


def refuse_leaf(tensor: Tensor, op: str) -> None:
    """Raises where the history of a write could not be kept, while grad mode is on.

    Raises:
        AutogradError: the tensor is a leaf that requires grad, a view of one, or a view whose history may
            not be rebased.
    """
    if not modes.grad_enabled:
        return
    root = tensor._root
    if root is not None:
        if tensor._creation:
            raise refuse_rebase(tensor, tensor.__dict__.get("_grad_fn"), is_indirect=False)
        if tensor._requires_grad and root._grad_fn is None:
            raise AutogradError(
                f"{op}: a view of a leaf Variable that requires grad is being used in an in-place operation. "
                f"Got {describe(tensor._storage.spec)}. Write under oplib.no_grad(), or into tensor.detach()."
            )
    if tensor._requires_grad and tensor._grad_fn is None:
        raise AutogradError(
            f"{op}: a leaf Variable that requires grad is being used in an in-place operation. "
            f"Got {describe(tensor._storage.spec)}. Write under oplib.no_grad(), or into tensor.detach()."
        )


def write_in_place(tensor: Tensor, result: Tensor, op: str) -> Tensor:
    """Makes a tensor hold what was computed out of place from it.

    Args:
        tensor: the tensor that is written; :func:`check_may_write` has let it pass.
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
    note_history(tensor, fitted)
    if modes.state.watchers and carries_tangents():
        write_tangent(tensor, fitted, lambda held, new: write_in_place(held, new, op))
    return tensor


def note_history(tensor: Tensor, value: Tensor | None) -> None:
    """Gives a tensor that was written the history of the value that it holds now; None for a constant."""
    if modes.grad_enabled and (tensor._requires_grad or (value is not None and value._requires_grad)):
        rebase_history(tensor, None if value is None else gradient_edge(value))
    else:
        note_write(tensor)


def _fit(tensor: Tensor, result: Tensor, op: str) -> Tensor:
    """Returns the result in the dtype of the tensor, if it can be stored there."""
    old, new = tensor._storage.spec, result._storage.spec
    if new.shape != old.shape:
        raise ArgumentError(
            f"{op}: output with shape {list(old.shape)} doesn't match the broadcast shape {list(new.shape)}. "
            f"Got {describe(new)} for {describe(old)}. Only the other operand is broadcast."
        )
    if new.dtype == old.dtype:
        return result
    refuse_cast(op, new.dtype, old.dtype)
    return upcalls.to_dtype(result, old.dtype)


def refuse_cast(op: str, given: Any, wanted: Any) -> None:
    """Raises where a result may not be stored in a tensor of another dtype.

    Raises:
        ArgumentError: its dtype is of a higher kind.
    """
    if not can_cast(given, wanted):
        raise ArgumentError(
            f"{op}: result type {_name(given)} can't be cast to the desired output type {_name(wanted)}. "
            "Convert the tensor first, or use the op that is not in place."
        )


def _name(dtype: Any) -> str:
    """The name that torch's message has for a dtype."""
    return _TYPE_NAMES.get(dtype.name) or str(dtype)


def _exempt(node: FormulaNode, storage: Storage, own: Storage | None) -> None:
    """Lets the node that was just recorded keep what it saved of the tensor it writes.

    Its old value is no longer the tensor's; its new value, a saved output, is.
    """
    node.set_storages(*_move(node.storages, storage, own))
    if node.kept is not None:
        values, storages, _ = node.kept
        node.kept = (values, *_move(storages, storage, own))


def _move(
    storages: Sequence[Storage], written: Storage, own: Storage | None
) -> tuple[tuple[Storage, ...], tuple[int, ...]]:
    """Gives what was saved of the written storage to nobody, and what was saved of the result to it.

    Returns:
        The storages and their versions. What was saved of another view of the same memory had the version
        from before the write, and so counts as overwritten.
    """
    moved = tuple([NOBODY if one is written else written if one is own else one for one in storages])
    pairs = zip(storages, moved, strict=True)
    return moved, tuple([now.version - (now is one and now.owner is written.owner) for one, now in pairs])
