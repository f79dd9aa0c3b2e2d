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
from oplib.errors import TracingError
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.structure import Results
from oplib.library.derivatives.jvp_rule import check_jvp_rule, run_jvp_rule
from oplib.library.kernels.running import run_kernel
from oplib.library.objects.overload import OpOverload


def make_plain_function(overload: OpOverload, layout: Layout, *, compiled: bool) -> ArrayFunction:
    """Returns an op with fixed static arguments as a function that is never traced for its execution.

    Args:
        overload: the op, which is differentiated by JAX or by its jvp rule.
        layout: the layout of the call.
        compiled: the function may be traced to find what its derivative reads.
    """

    def run(*arrays: Any) -> tuple[Any, ...]:
        return tuple(run_differentiated(overload, layout, arrays)[1])

    record = overload.record
    function = run
    if not record.derivative.derive:
        function = jax.custom_jvp(run)
        function.defjvp(bind_jvp_rule(overload, layout), symbolic_zeros=True)
    return ArrayFunction(function, record.name, compiled=compiled)


def run_differentiated(overload: OpOverload, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs the kernel as plain Python while JAX may differentiate it.

    Raises:
        TracingError: the kernel needs a value that JAX hides there.
    """
    try:
        return run_kernel(overload.record, layout, arrays)
    except CONCRETIZATION_ERRORS as error:
        raise _explain_value(overload.name(), error).with_traceback(error.__traceback__) from None


def bind_jvp_rule(overload: OpOverload, layout: Layout) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Returns the jvp rule in JAX's convention: one tangent per output, of dtype float0 if it has none."""
    checked: set[Any] = set()

    def push(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        record = overload.record
        outputs = run_kernel(record, layout, primals)[1]
        given = [None if isinstance(tangent, SymbolicZero) else tangent for tangent in tangents]
        check_jvp_rule(record, layout, primals, given, checked=checked)
        found = iter(run_jvp_rule(record, layout, primals, given))
        spread = [
            next(found) if has_gradient(value.dtype) else np.zeros(value.shape, jax.dtypes.float0)
            for value in outputs
        ]
        return tuple(outputs), tuple(spread)

    return push


def _explain_value(op: str, error: Exception) -> TracingError:
    return TracingError(
        f"{op}: the kernel needs the concrete value of an argument of its derivative. "
        f"{str(error).splitlines()[0]} Read it from jax.lax.stop_gradient(value), which has one there "
        "too, or register a backward formula."
    )
