"""An op that runs as plain Python, as a function of arrays that JAX differentiates in place.

Kernel and jvp rule get concrete values, or, while JAX differentiates the kernel, tracers that hold concrete
values. So code that prints, compares or reads a value through ``stop_gradient`` works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.custom_derivatives import SymbolicZero

from oplib.autograd.array_functions.array_function import ArrayFunction, has_gradient
from oplib.autograd.array_functions.concreteness import CONCRETIZATION_ERRORS
from oplib.autograd.array_functions.masks import pick_true
from oplib.errors import TracingError
from oplib.library.arguments.structure import Results, Structure
from oplib.library.kernels.running import run_kernel
from oplib.protocols import Values

from .bound_call import BoundCall
from .rule_call import push_example

Note = Callable[[Structure], None]


def make_plain_function(call: BoundCall, *, compiled: bool) -> ArrayFunction:
    """Returns a call as a function that is never traced for its execution.

    Args:
        call: the bound call of an op that is differentiated by JAX or by its jvp rule.
        compiled: the function may be traced to find what its derivative reads.
    """
    return ArrayFunction(bind_plain(call, lambda _: None), call.record.name, compiled=compiled)


def bind_plain(call: BoundCall, note: Note) -> Callable[..., Values]:
    """Returns a call as a function that runs as plain Python while JAX differentiates it.

    Args:
        call: as for :func:`make_plain_function`.
        note: gets the structure of the results, each time that the function runs.
    """

    def run(*arrays: Any) -> Values:
        structure, outputs = _run_differentiated(call, arrays)
        note(structure)
        return tuple(outputs)

    if call.record.derivative.derive:
        return run
    function = jax.custom_jvp(run)
    function.defjvp(bind_jvp_rule(call, note), symbolic_zeros=True)
    return function


def _run_differentiated(call: BoundCall, arrays: Sequence[Any]) -> Results:
    """Runs the kernel as plain Python while JAX may differentiate it.

    Raises:
        TracingError: the kernel needs a value that JAX hides there.
    """
    try:
        return run_kernel(call.record, call.layout, arrays)
    except CONCRETIZATION_ERRORS as error:
        raise _explain_value(call.overload.name(), error).with_traceback(error.__traceback__) from None


def bind_jvp_rule(call: BoundCall, note: Note) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Returns the jvp rule in JAX's convention: one tangent per output, of dtype float0 if it has none."""

    def push(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        wanted = tuple(not isinstance(tangent, SymbolicZero) for tangent in tangents)
        structure, outputs, pushed = push_example(call, wanted, primals, pick_true(tangents, wanted))
        note(structure)
        rest = iter(pushed)
        spread = [
            next(rest) if has_gradient(value.dtype) else np.zeros(value.shape, jax.dtypes.float0)
            for value in outputs
        ]
        return outputs, tuple(spread)

    return push


def _explain_value(op: str, error: Exception) -> TracingError:
    return TracingError(
        f"{op}: the kernel needs the concrete value of an argument of its derivative. "
        f"{str(error).splitlines()[0]} Read it from jax.lax.stop_gradient(value), which has one there "
        "too, or register a backward formula."
    )
