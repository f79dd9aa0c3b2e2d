"""The context of every kernel and rule: recording is off, and reading a traced value is an error."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from jax.core import Tracer
from jax.errors import TracerArrayConversionError, UnexpectedTracerError

from oplib.autograd.array_functions.concreteness import CONCRETIZATION_ERRORS
from oplib.autograd.nodes.locations import show_location
from oplib.autograd.tangents import switch_forward_mode
from oplib.errors import CapturedTracerError, TracingError, describe
from oplib.library.arguments.layout import Layout
from oplib.modes import modes
from oplib.raw_errors import explain_mistake
from oplib.tensor.storage.escape import note_trace
from oplib.torch_names import suggest
from oplib.tracebacks import find_mistake

Result = TypeVar("Result")

_TRACED_SIZES = (  # of JAX
    "Shapes must be 1D sequences of concrete values",
    "Slice entries must be static",
    "Array slice indices must have static",
)
_DEAD_VALUE = re.compile(r"intermediate value with type (.+?) to escape")
_scopes = iter(range(1, 1 << 62))


def run_with_grad_off(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
    """Calls a kernel or rule without recording and without the propagation of tangents."""
    state = modes.state
    before = state.grad_enabled, state.forward_enabled
    try:
        state.grad_enabled = False
        switch_forward_mode(state, False)
        return function(*args, **kwargs)
    finally:
        state.grad_enabled = before[0]
        switch_forward_mode(state, before[1])


def run_part(
    work: Callable[[], Result], op: str, part: str, *, eager: bool, layout: Layout | None = None
) -> Result:
    """Runs a kernel or rule: recording is off, and compiled code may not read values.

    An error of the user's own code that passes through gets a note with the op and the part. One that JAX,
    numpy or an op raises below a line of the user is replaced by one that shows the line and the arguments.

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
        except (*CONCRETIZATION_ERRORS, TypeError, IndexError) as error:
            if not isinstance(error, CONCRETIZATION_ERRORS) and not str(error).startswith(_TRACED_SIZES):
                raise
            better = _explain_value(op, part, layout, error)
            raise better.with_traceback(error.__traceback__) from None
    except Exception as error:
        if not str(error).startswith(f"{op}:"):
            explain_error(error, op, part)
        raise
    finally:
        state.constant_in = constant_in
        if state.in_trace != was_in_trace:  # this part was in another trace, or in none
            state.in_trace = was_in_trace
            state.watchers += 1 if was_in_trace else -1


def explain_error(error: Exception, op: str, part: str) -> None:
    """Raises an error that names the user's line if what that line calls raised one; else adds a note.

    An exception that the user's own code raises stays as it is.

    Raises:
        CapturedTracerError: a rule closes over a value of a trace that has ended.
    """
    if part != "kernel" and isinstance(error, UnexpectedTracerError):
        made = _DEAD_VALUE.search(str(error))
        raise CapturedTracerError(
            f"{op}: the {part} closes over a value of a trace that has ended. Got "
            f"{made[1] if made else 'a traced value'}. JAX runs the {part} outside of the function that made "
            "the value. Make it an argument of the op."
        ) from error
    if found := find_mistake(error):
        called, frame, line = found
        cure = suggest(error) if isinstance(error, AttributeError) else ""
        location = show_location(frame.f_code, line)
        better = explain_mistake(error, op, part, called, location, cure=cure)
        if better is not None:
            raise better from error
    error.add_note(f"Raised in the {part} of {op}.")


def trace_to_jaxpr(jitted: Any, arrays: Sequence[Any], *, op: str, part: str) -> Any:
    """Returns the closed jaxpr of a jitted kernel or rule of flat arrays.

    Raises:
        CapturedTracerError: a rule closes over a traced value. JAX would make it a further argument.
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
    """Tells whether one of the arrays is traced; a rule that gets them is traced too, not run as Python."""
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
    """Returns the error for compiled code that reads a value, with the line that does and the cures."""
    found = find_mistake(error)
    place = f" at {show_location(found[1].f_code, found[2])}" if found else ""
    named = found[0].f_locals if found else {}
    match = re.search(r"arrays\[(\d+)\]", str(error)) if layout is not None else None
    if layout is not None and match is not None:
        names = [layout.find_argument(int(match[1]))]
    else:  # JAX does not say which; a size that the line names is the one
        source = place.partition(", in ")[2]
        names = [
            name for name in named if _name_kind(named[name]) == "int" and re.search(rf"\b{name}\b", source)
        ]
    subject = f"argument '{names[0]}'" if len(names) == 1 else "one of its values"
    kind = _name_kind(named.get(names[0])) if len(names) == 1 else None
    cure = f"Annotate `{names[0]}: {kind}`, which makes it static; or use" if kind else "Use jax.numpy,"
    cures = f"{cure} jax.lax control flow, give compile=False, or annotate numpy.ndarray"
    if part == "backward formula" and isinstance(error, TracerArrayConversionError):
        cures = "Annotate its gradients `numpy.ndarray`, so that it runs on the host, or use jax.numpy"
    return TracingError(
        f"{op}: the {part} needs the concrete value of {subject} while it is compiled{place}. {cures}. "
        f"Got: {textwrap.shorten(str(error).splitlines()[0].rstrip('.'), 80, placeholder='..')}."
    )


def _name_kind(value: Any) -> str | None:
    """Returns the annotation that makes an argument static which is a number now; None for other values."""
    if not isinstance(value, Tracer) or value.shape:
        return None
    return {"i": "int", "u": "int", "b": "bool", "f": "float"}.get(value.dtype.kind)
