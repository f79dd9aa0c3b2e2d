"""In-place calls that leave the result in the buffer of the Tensor that they write (ADR 44)."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.recording.rebase import note_write
from oplib.library.arguments.layout import Layout, make_layout
from oplib.library.arguments.recording import to_constant, unbox
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.record import Record
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.tensor import Tensor, needs_grad
from oplib.tensor.storage.escape import runs_at_once
from oplib.tensor.storage.fresh import FreshStorage, exchange_for_own, get_owner_array, is_large, rewrite
from oplib.tracebacks import call_compiled

from .dispatcher import Dispatcher
from .input_kind import take_numbers


def choose_call(op: OpOverload, tensor: Any) -> AnyFunction:
    """Returns the function that computes the new value of a Tensor for an in-place op.

    Args:
        op: the op out of place.
        tensor: its first argument, which is written.

    Returns:
        ``op.call``; or a function that also writes the value if it can use the buffer of the Tensor, and then
        returns the Tensor.
    """
    storage = tensor._storage
    if storage.__class__ is FreshStorage and is_large(storage.spec.shape):
        return partial(_call, op)
    return op.call


def exchange_for_result(storage: Any, seen: Any, result: Any) -> bool:
    """Writes a large result of a compiled call into an ordinary storage, which becomes fresh.

    Args:
        storage: the storage.
        seen: its array when the call was made.
        result: the result. Nothing else holds it, because the call has put it into a buffer of its own.

    Returns:
        Whether it is written. If not, another thread has written since.
    """
    if runs_at_once() and not is_uncompiled():  # else a kernel may return one of its arguments
        return exchange_for_own(storage, seen, result)
    return storage.exchange(seen, result)


def _call(op: OpOverload, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    dispatcher, state = op.prepare(), modes.state
    if not (dispatcher.is_fast and dispatcher.returns_one and _is_own(dispatcher.record)):
        return op.call(tensor, *args, **kwargs)
    if state.watchers or state.region is not None or is_uncompiled() or not runs_at_once():
        return op.call(tensor, *args, **kwargs)
    values = dispatcher.binder.bind((tensor, *args), kwargs, op=dispatcher.name)
    layout, flat = make_layout(dispatcher.schema, values, dispatcher.record.operand, op=dispatcher.name)
    if not _write(dispatcher, layout, tensor, take_numbers(dispatcher.record, layout, flat)):
        return dispatcher.call_on_tensors(layout, flat, values)
    if tensor._restricted_views is not None:
        note_write(tensor)
    return tensor


def _write(dispatcher: Dispatcher, layout: Layout, tensor: Tensor, flat: list[Any]) -> bool:
    """Runs the program of a call with the array of the Tensor donated, if nothing needs the array afterwards.

    Returns:
        Whether it has run. If not, nothing has happened.
    """
    wants_grad = modes.state.grad_enabled and any(map(needs_grad, flat))
    if layout.is_transient or flat[0] is not tensor or wants_grad:
        return False
    operands = [unbox(value) if isinstance(value, Tensor) else to_constant(value) for value in flat[1:]]
    specialization = dispatcher.specialize(layout)
    storage = tensor._storage
    whole = get_owner_array(storage)  # after the operands: one of them may read this storage
    key = tuple(map(_describe, (whole, *operands)))
    if None in key or specialization.call.is_plain or storage.__class__ is not FreshStorage:
        return False
    run, fits = specialization.run_in_buffer, specialization.buffer_calls.get(key)
    if fits:
        return rewrite(storage, run, operands)
    if fits is None:
        made: Any = call_compiled(run.eval_shape, whole, *operands)
        fits = specialization.buffer_calls[key] = made.shape == whole.shape and made.dtype == whole.dtype
        if fits:  # JAX runs this call in Python, where an interrupt would lose the result: a copy is donated
            seen = storage.array
            return exchange_for_own(storage, seen, call_compiled(run, jnp.copy(seen), *operands))
    return False


def _is_own(record: Record) -> bool:
    """Tells whether all that runs is code of oplib. A callback could raise while the buffer is in use."""
    kernels: list[Any] = list(map(inspect.unwrap, record.kernels.values()))
    functions = [getattr(kernel, "func", kernel) for kernel in kernels]  # of a partial, its function
    modules = [getattr(function, "__module__", "") for function in functions]
    return record.is_built_in and all(module.startswith("oplib.builtin.") for module in modules)


def _describe(operand: Any) -> object:
    """Returns the facts about an operand that a program depends on; None if no program serves it."""
    if not isinstance(operand, jax.Array):
        return operand.__class__
    if isinstance(operand, Tracer) or operand.sharding.__class__ is not SingleDeviceSharding:
        return None
    return operand.aval, operand.sharding, operand.committed
