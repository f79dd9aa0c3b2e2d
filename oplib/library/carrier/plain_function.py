"""An op that runs as plain Python, as a function of arrays that JAX differentiates where it stands.

Kernel and jvp rule are called with the values themselves, or, while a derivative of the kernel is taken, with
tracers that hold these: what is printed, compared or read through ``stop_gradient`` has values there too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from oplib.autograd.array_functions.array_function import ArrayFunction, has_gradient
from oplib.autograd.array_functions.concreteness import CONCRETIZATION_ERRORS
from oplib.errors import TracingError
from oplib.library.arguments.layout import Layout
from oplib.library.derivatives.jvp_rule import run_jvp_rule
from oplib.library.kernels.running import run_kernel
from oplib.library.objects.overload import OpOverload
from oplib.library.records.record import Record


def make_plain_function(overload: OpOverload, layout: Layout) -> ArrayFunction:
    """Returns an op with its static arguments fixed as a function that is never traced to run.

    Args:
        overload: the op, whose derivative is JAX's own of the kernel, or its jvp rule.
        layout: of the call.
    """

    def run(*arrays: Any) -> tuple[Any, ...]:
        try:
            return tuple(run_kernel(overload.record, layout, arrays)[1])
        except CONCRETIZATION_ERRORS as error:
            raise _explain_value(overload.name(), error) from error

    record = overload.record
    function = run
    if not record.derivative.derive:
        function = jax.custom_jvp(run)
        function.defjvp(lambda primals, tangents: _push(overload.record, layout, primals, tangents))
    return ArrayFunction(function, record.name, compiled=not record.is_plain)


def _push(record: Record, layout: Layout, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The jvp rule as JAX has it: one tangent for each output, of no values where there can be none."""
    outputs = run_kernel(record, layout, primals)[1]
    given = [None if tangent.dtype == jax.dtypes.float0 else tangent for tangent in tangents]
    found = iter(run_jvp_rule(record, layout, primals, given))
    spread = [
        next(found) if has_gradient(value.dtype) else np.zeros(value.shape, jax.dtypes.float0)
        for value in outputs
    ]
    return tuple(outputs), tuple(spread)


def _explain_value(op: str, error: Exception) -> TracingError:
    return TracingError(
        f"{op}: the kernel needs the concrete value of something that is being differentiated. "
        f"{str(error).splitlines()[0]} Read it from jax.lax.stop_gradient(value), which has one there "
        "too, or register a backward formula."
    )
