"""In-place writes with history: a Tensor takes over the value and the edge of a result.

An in-place op calls the functional op, which is recorded as usual. Then the written Tensor takes over the
result. No array is ever changed, so saved values stay as they were. Versions are counted only because torch's
contract has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

from jax.core import Tracer

from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.tangents import carries_tangents, find_tangent, set_apart, write_tangent
from oplib.errors import ArgumentError, AutogradError, describe
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, box, can_cast, needs_grad, upcalls
from oplib.tensor.devices.layout import have_no_layout, place_like
from oplib.tensor.dtypes.class_names import WORDS
from oplib.tensor.storage.cut import fit_written
from oplib.tensor.storage.escape import refuse_escape
from oplib.tensor.views import ViewStorage
from oplib.tensor.views.view_storage import refuse_shared_items

from .formula_node import NOBODY, FormulaNode
from .rebase import note_write, rebase_history
from .view import refuse_rebase

_get_storage, _get_array, _get_aval = attrgetter("_storage"), attrgetter("array"), attrgetter("aval")


def check_may_write(
    tensor: Tensor, op: str, operands: Sequence[Any] = (), *, is_uniform: bool = False
) -> None:
    """Raises if a tensor may not be written in place, before anything is computed.

    Args:
        tensor: the tensor to write.
        op: the in-place op.
        operands: the other arguments of the op. The write is recorded if one of them requires grad.
        is_uniform: all items get the same value, so that several may share one memory location.

    Raises:
        AutogradError: several items of the tensor share one memory location, or a write would not reach its
            base. With grad mode on, also: the tensor is a leaf that requires grad, a view of one, or a view
            whose history may not be rebased.
    """
    if tensor._storage.__class__ is not Storage:
        refuse_shared_items(
            tensor,
            op,
            is_uniform=is_uniform,
            is_recorded=lambda: modes.grad_enabled and any(map(has_required_grad, (tensor, *operands))),
        )
    check_may_turn(tensor, op, operands)


def check_may_turn(tensor: Tensor, op: str, operands: Sequence[Any] = ()) -> None:
    """Checks like :func:`check_may_write`, for ops such as ``t_`` that write no item."""
    storage: Any = tensor._storage
    if tensor._read_only is not None:
        raise read_only_error(tensor, op)
    state = modes.state
    if state.watchers and isinstance(storage, ViewStorage):
        for start in storage.starts:  # it decides where a value is stored, which is then traced too
            refuse_escape(start, tensor, op)
    if not state.grad_enabled:
        return
    may_refuse = tensor._root is not None or tensor._grad_fn is None
    if may_refuse and (tensor._requires_grad or (operands and any(map(has_required_grad, operands)))):
        refuse_leaf(tensor, op)
    if state.watchers and (tangent := find_tangent(tensor)) is not None and tangent._requires_grad:
        refuse_leaf(tangent, op)  # the op writes it too


def read_only_error(tensor: Tensor, op: str) -> AutogradError:
    """Returns the error for a write that would be lost: the result of a view op is a copy of its base."""
    return AutogradError(
        f"{op}: the tensor is the result of the view op {tensor._read_only}, and writing into it would not "
        f"reach its base, because it is a copy. Got {describe(tensor._storage.spec)}. Write into the base, "
        "or into tensor.clone()."
    )


def has_required_grad(value: Any) -> bool:
    """Returns whether a tensor, or one in a list, requires grad. Other values do not."""
    if isinstance(value, Tensor):
        return value._requires_grad
    return isinstance(value, (list, tuple)) and any(map(needs_grad, cast("Sequence[Any]", value)))


def refuse_leaf(tensor: Tensor, op: str) -> None:
    """Raises if the history of a write cannot be kept. The caller records it.

    Raises:
        AutogradError: the tensor is a leaf that requires grad, a view of one, or a view whose history may
            not be rebased.
    """
    root = tensor._root
    if root is not None and tensor._creation:
        raise refuse_rebase(tensor, tensor.__dict__.get("_grad_fn"), is_indirect=False)
    if tensor._requires_grad and (tensor if root is None else root)._grad_fn is None:
        raise AutogradError(
            f"{op}: a {'leaf' if root is None else 'view of a leaf'} Variable that requires grad is being "
            f"used in an in-place operation. Got {describe(tensor._storage.spec)}. Write under "
            "oplib.no_grad(), or into tensor.detach()."
        )


def update_in_place(tensor: Tensor, compute: Callable[[Tensor], Tensor], op: str) -> Tensor:
    """Makes a tensor hold a result that is computed out of place from it, atomically among threads.

    Args:
        tensor: the tensor to write, which :func:`check_may_write` has accepted.
        compute: computes the result from the tensor, or from one of the same value which a hook for saved
            tensors may keep. It is called again if another thread has written meanwhile.
        op: the in-place op, for errors.
    """
    while True:
        seen = tensor._storage.owner.array
        operand = set_apart(tensor) if modes.state.hook_pairs and modes.state.grad_enabled else tensor
        if write_in_place(tensor, compute(operand), op, seen) is not None:
            return tensor


def write_in_place(tensor: Tensor, result: Tensor, op: str, seen: Any = None) -> Tensor | None:
    """Makes a tensor hold a result that was computed out of place.

    Args:
        tensor: the tensor to write, which :func:`check_may_write` has accepted.
        result: the new value with its history. Nothing else holds it.
        op: the in-place op, for errors.
        seen: the array of the owner before the result was computed; None for a result that does not depend on
            the tensor.

    Returns:
        ``tensor``; None if the owner no longer holds ``seen``, so that nothing was written.

    Raises:
        ArgumentError: the result has another shape, or a dtype of a higher kind.
        TracingError: a traced value would be stored in a tensor that outlives the trace.
    """
    if result is tensor:  # the op has used its buffer
        return tensor
    storage, own = tensor._storage, result._storage
    state = modes.state
    if (
        storage.__class__ is Storage
        and own.__class__ is Storage
        and not state.watchers
        and state.region is None
        and seen is not None
    ):  # nothing else is to be checked: the common case
        array = own.array
        is_alike = array.aval is seen.aval or (array.shape == seen.shape and array.dtype == seen.dtype)
        if is_alike and not isinstance(array, Tracer):
            if seen.committed:
                array = place_like(array, seen)
            if storage.array is not seen:
                return None
            storage.array = array
            storage.version += 1
            if result._requires_grad or (tensor._requires_grad and state.grad_enabled):
                note_result(tensor, result, result)
            elif tensor._restricted_views is not None:
                note_write(tensor)
            return tensor
    return _write_converted(tensor, result, op, seen)


def write_values(tensors: Sequence[Tensor], arrays: Sequence[Any], op: str) -> None:
    """Gives each of several tensors a new value without history. The caller has switched recording off.

    Args:
        tensors: the tensors to write, which :func:`refuse_writes` has accepted.
        arrays: their new values.
        op: what writes them, for errors.
    """
    state = modes.state
    storages = list(map(_get_storage, tensors))
    if set(map(type, storages)) == {Storage} and not state.watchers and state.region is None:
        held = list(map(_get_array, storages))
        is_alike = set(map(type, held)) == set(map(type, arrays)) and have_no_layout(held)
        if is_alike and list(map(_get_aval, held)) == list(map(_get_aval, arrays)):
            for tensor, storage, array in zip(tensors, storages, arrays, strict=True):
                storage.array = array
                storage.version += 1
                if tensor._restricted_views is not None:
                    note_write(tensor)
            return
    for tensor, array in zip(tensors, arrays, strict=True):
        write_in_place(tensor, box(array), op)


def _write_converted(tensor: Tensor, result: Tensor, op: str, seen: Any) -> Tensor | None:
    storage, state = tensor._storage, modes.state
    fitted = _fit(tensor, result, op)
    refuse_escape(fitted._storage.array, tensor, op)
    region = state.region
    array = fit_written(storage, fitted._storage.array) if state.constant_in else fitted._storage.array
    if region is not None or seen is None:
        storage.write(array)
    elif not storage.exchange(seen, array):
        return None
    note_result(tensor, fitted, result)
    if state.watchers and carries_tangents():
        write_tangent(tensor, fitted, lambda held, new: write_in_place(held, new, op))
    return tensor


def note_result(tensor: Tensor, fitted: Tensor, result: Tensor) -> None:
    """Gives a written tensor the history of its new value; ``fitted`` is the result in its dtype."""
    node: Any = result._grad_fn
    if FormulaNode in node.__class__.__mro__:  # isinstance of an ABC runs Python
        _exempt(node, tensor._storage, result._storage if fitted is result else None)
    note_history(tensor, fitted)


def note_history(tensor: Tensor, value: Tensor | None) -> None:
    """Gives a written tensor the history of its new value; None stands for a constant."""
    if modes.state.grad_enabled and (tensor._requires_grad or (value is not None and value._requires_grad)):
        rebase_history(tensor, None if value is None else gradient_edge(value))
    else:
        note_write(tensor)


def _fit(tensor: Tensor, result: Tensor, op: str) -> Tensor:
    """Returns the result in the dtype of the tensor, if the tensor can store it."""
    old, new = tensor._storage.spec, result._storage.spec
    old, new = getattr(old, "aval", old), getattr(new, "aval", new)  # attributes of arrays run Python
    if new.shape != old.shape:
        raise ArgumentError(
            f"{op}: output with shape {list(old.shape)} doesn't match the broadcast shape {list(new.shape)}. "
            f"Got {describe(new)} for {describe(old)}. Only the other operand is broadcast."
        )
    if new.dtype == old.dtype:
        return result
    refuse_cast(op, new.dtype, old.dtype)
    return upcalls.to_dtype(result, old.dtype)


def refuse_cast(op: str, computed: Any, wanted: Any) -> None:
    """Raises ArgumentError if a result is of a higher kind of dtype than the tensor that is to store it."""
    if not can_cast(computed, wanted):
        raise ArgumentError(
            f"{op}: result type {_name(computed)} can't be cast to the desired output type {_name(wanted)}. "
            "Convert the tensor first, or use the op that is not in place."
        )


def _name(dtype: Any) -> str:
    """Returns the name of a dtype in torch's message."""
    return WORDS.get(dtype) or str(dtype)


def _exempt(node: FormulaNode, storage: Storage, own: Storage | None) -> None:
    """Updates what a new node saved of the tensor that its own call writes.

    The saved old value no longer belongs to the tensor. A saved output is its new value.
    """
    storages = node.storages
    if storages.count(NOBODY) < len(storages):  # it has saved more than numbers
        node.set_storages(*_move(storages, storage, own))
    if node.kept is not None:
        values, storages, _ = node.kept
        node.kept = (values, *_move(storages, storage, own))


def _move(
    storages: Sequence[Storage], written: Storage, own: Storage | None
) -> tuple[tuple[Storage, ...], tuple[int, ...]]:
    """Moves saved values of the written storage to no storage, and saved values of the result to it.

    Returns:
        The storages and their versions. A value saved of another view of the same memory has the version from
        before the write, and so counts as overwritten.
    """
    moved = tuple(
        [NOBODY if storage is written else written if storage is own else storage for storage in storages]
    )
    pairs = zip(storages, moved, strict=True)
    return moved, tuple(
        [now.version - (now is before and now.owner is written.owner) for before, now in pairs]
    )
