"""Escape of traced values: a tensor that outlives a trace must not hold values of the trace."""

from __future__ import annotations

from typing import Any

import jax
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from oplib.errors import TracingError, describe
from oplib.modes import ModeState, modes
from oplib.tensor.devices.forked import is_orphan

from .overlay import overlays
from .tensor_slots import TensorSlots

with jax.ensure_compile_time_eval():  # a trace may import the package
    OUTSIDE: object = get_opaque_trace_state()


def is_inside_trace() -> bool:
    """Returns whether JAX traces the calling code. New arrays are then values of the trace."""
    return get_opaque_trace_state() != OUTSIDE


def is_only_mapped() -> bool:
    """Returns whether all transformations of JAX around the calling code are maps of ``oplib.vmap``."""
    levels: Any = modes.state.map_levels
    trace = OUTSIDE
    for level in levels:
        if level.outside != trace:
            return False
        trace = level.inside
    return bool(levels) and get_opaque_trace_state() == trace


def note_trace(state: ModeState) -> object:
    """Returns the trace of JAX in which the calling code runs, or None, and tells the calls of the thread."""
    trace = get_opaque_trace_state()
    if trace == OUTSIDE:
        if state.in_trace:
            state.watchers -= 1
            state.in_trace = False
        return None
    if not state.in_trace:
        state.watchers += 1
        state.in_trace = True
    return trace


def runs_at_once() -> bool:
    """Returns whether a compiled function of arrays runs here: no trace, no ``disable_jit``, no orphan.

    Where JAX looks for NaN or infinity in results, it raises after the function has run.
    """
    config: Any = jax.config  # its attributes are made late
    is_other = config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs
    return not (is_other or is_orphan() or is_inside_trace())


def is_escaping(array: Any, tensor: TensorSlots) -> bool:
    """Returns whether a value would leave its trace if it was stored in a tensor.

    Leaves and results of factories record the trace in which they were made. Of the results of ops those
    without a tracer do; a traced one ends with its trace.
    """
    if not isinstance(array, Tracer):
        return False
    written = tensor if tensor._root is None else tensor._root  # a view writes into its base
    if written._trace == get_opaque_trace_state():
        return False
    overlay, owner = overlays.current, written._storage.owner
    held: object = owner.array
    # A captured tensor has a storage of the overlay, which holds a tracer, or one given to its `data` inside.
    if overlay is not None and isinstance(held, Tracer):
        if overlay.takes_writes and overlay.is_current_trace():
            return False
        if owner in overlay.cells:
            return True
    return written._trace is not None or not isinstance(held, Tracer)


def is_made_inside(tensor: TensorSlots) -> bool:
    """Returns whether an op, and no factory, made a tensor while ``oplib.jit`` traces.

    The tensor may share memory with one from outside, as the result of ``detach`` does. Nevertheless its
    attributes end with the trace.
    """
    overlay = overlays.current
    if overlay is None or overlay.outside is None:
        return False
    # ``detach`` copies the trace of its argument
    return (tensor._trace is None or tensor._trace == OUTSIDE) and id(tensor) not in overlay.outside


def refuse_outside(tensor: TensorSlots, what: str) -> None:
    """Raises if a tensor existed before the function that ``oplib.jit`` traces.

    A call of the program would have to make the change again, at each call.

    Raises:
        TracingError: it did.
    """
    overlay = overlays.current
    if overlay is not None and overlay.outside is not None and id(tensor) in overlay.outside:
        raise TracingError(
            f"{overlay.name}: {what} changes a tensor from outside of the function. Got "
            f"{describe(tensor._storage.array)}. A compiled program changes its values, data and grad only. "
            "Do this outside of the function, or with a tensor that is made inside."
        )


def refuse_escape(array: Any, tensor: TensorSlots, what: str) -> None:
    """Raises if a traced value would be written into a tensor that outlives the trace.

    Raises:
        TracingError: the tensor outlives the trace of the value.
    """
    if not is_escaping(array, tensor):
        return
    if modes.state.map_levels:
        raise TracingError(
            f"{what}: inplace arithmetic in vmap: a mapped value would be written into a tensor that is not "
            f"mapped. Got {describe(array)} for {describe(tensor._storage.array)}, which cannot hold all "
            "examples. Use the op that is not in place, or map the tensor too."
        )
    raise TracingError(
        f"{what}: a traced value would be stored in a tensor made outside this trace, which outlives it, or "
        "made by an op before the code met a traced value or a factory. Got "
        f"{describe(array)} for {describe(tensor._storage.array)}. Return the value from the traced "
        "function, use the op that is not in place, or make the tensor inside by a factory."
    )
