"""The context of every kernel and rule: recording is off, and reading a traced value is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jax.core import Tracer

from oplib.autograd.array_functions.concreteness import CONCRETIZATION_ERRORS
from oplib.errors import CapturedTracerError, TracingError, describe
from oplib.library.arguments.layout import Layout
from oplib.modes import modes
from oplib.tensor.storage.escape import note_trace

Result = TypeVar("Result")

_scopes = iter(range(1, 1 << 62))


def run_with_grad_off(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Calls a kernel or rule without recording and without the propagation of tangents."""
    state = modes.state
    before = state.grad_enabled, state.forward_enabled
    try:
        state.grad_enabled = state.forward_enabled = False
        return function(*args, **kwargs)
    finally:
        state.grad_enabled, state.forward_enabled = before


def run_part(
    work: Callable[[], Result], op: str, part: str, *, eager: bool, layout: Layout | None = None
) -> Result:
    """Runs a kernel or rule: recording is off, and compiled code may not read values.

    An error that passes through keeps its type and text, and gets a note with the op and the part.

    Args:
        work: calls it.
        op: the op's name.
        part: the part that runs, for errors: ``kernel``, ``backward formula``.
        eager: the part is plain Python on Tensors, and not traced by oplib.
        layout: the layout of the call whose arrays are the arguments of the trace, for errors that name an
            argument.

    Raises:
        TracingError: compiled code requested a concrete value.
    """
    state = modes.state
    constant_in, was_in_trace = state.constant_in, state.in_trace
    try:
        state.constant_in = None  # no_grad means nothing for calls on arrays
        note_trace(state)
        if eager:
            return run_with_grad_off(work)
        try:
            return run_with_grad_off(_run_traced, work, _name_part(op, part, layout))
        except CONCRETIZATION_ERRORS as error:
            better = _explain_value(op, part, layout, error)
            raise better.with_traceback(error.__traceback__) from None
    except Exception as error:
        if not str(error).startswith(f"{op}:"):
            error.add_note(f"Raised in the {part} of {op}.")
        raise
    finally:
        state.constant_in = constant_in
        if state.in_trace and not was_in_trace:  # the trace of this part ends, and the next call may be fast
            state.in_trace = False
            state.watchers -= 1


def trace_to_jaxpr(jitted: Any, arrays: Sequence[Any], *, op: str, part: str) -> Any:
    """Returns the closed jaxpr of a jitted kernel or rule of flat arrays.

    Raises:
        CapturedTracerError: the code closes over a traced value. JAX would make it a further argument.
    """
    closed = jitted.trace(*arrays).jaxpr
    if len(closed.in_avals) > len(arrays):
        raise CapturedTracerError(
            f"{op}: the {part} closes over a traced value. Got {describe(closed.in_avals[0])}, which exists "
            "only while a JAX transformation traces, and the compiled code outlives it. Make it an argument "
            "of the op, or make the op without a name, inside of the traced function."
        )
    return closed


def any_traced(arrays: Iterable[Any]) -> bool:
    """Tells whether a rule that gets these arrays is being traced, instead of run as plain Python."""
    return any(isinstance(array, Tracer) for array in arrays)


def _name_part(op: str, part: str, layout: Layout | None) -> str:
    """Returns how an error calls what reads a Tensor: the part, or a function that is an argument."""
    functions = layout.list_functions() if layout is not None else []
    return f"{op}: the {part}" + "".join(f" or argument '{name}'" for name in functions)


def _run_traced(work: Callable[[], Result], subject: str) -> Result:
    """Marks the running thread as tracing a kernel or rule, which is the subject of errors; nests.

    The traced code serves calls in inference mode and others, so it does not see this mode.
    """
    state = modes.state
    before = state.tracing, state.tracing_scope, state.inference
    scope = next(_scopes)
    try:
        state.tracing, state.tracing_scope, state.inference = subject, scope, False
        state.watchers += 1
        return work()
    finally:
        state.watchers -= 1
        state.tracing, state.tracing_scope, state.inference = before


def _explain_value(op: str, part: str, layout: Layout | None, error: Exception) -> TracingError:
    """Returns the error for compiled code that reads a value, with the cures."""
    match = re.search(r"arrays\[(\d+)\]", str(error)) if layout is not None else None
    subject = "one of its values"
    if layout is not None and match is not None:
        subject = f"argument '{layout.find_argument(int(match[1]))}'"
    return TracingError(
        f"{op}: the {part} needs the concrete value of {subject} while it is compiled. "
        f"{str(error).splitlines()[0].rstrip('.')}. Make the argument static (annotate it int, float, bool "
        f"or str), or write the {part} with jax.numpy and jax.lax control flow, or define the op with "
        "compile=False to run it as plain Python. A kernel on numpy.ndarray may call numpy."
    )
