"""A numpy function as a function of arrays: run at once on concrete arrays, as a callback under a trace.

A callback does not know its op, and it reports some limits late or not at all. So the arguments pass through
a marker primitive that does nothing except raise errors for the callback, with the name of the op. This
module is not in the carrier, although it uses ``jax.interpreters``, because kernels are below the carrier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from oplib.errors import MissingRuleError, TracingError
from oplib.protocols import Values

from .tracing import any_traced

_mark = Primitive("host_call")


def call_host(
    function: Any,
    shapes: Sequence[jax.ShapeDtypeStruct],
    arrays: Sequence[Any],
    *,
    op: str,
    is_ordered: bool = False,
) -> list[Any]:
    """Calls a function of numpy arrays from a trace.

    Args:
        function: takes values that numpy converts to arrays, and returns one array per shape.
        shapes: the shapes of the results.
        arrays: the arguments; at least one is traced.
        op: the name of the op of the kernel or formula.
        is_ordered: the function has side effects. Its calls are kept, in the order of the program.
    """
    marked = _mark.bind(*arrays, op=op, is_ordered=is_ordered)
    if is_ordered:
        results = io_callback(function, list(shapes), *marked, ordered=True)
    else:
        results = jax.pure_callback(function, list(shapes), *marked, vmap_method="sequential")
    # A callback runs on one device. If its result is that of a jitted function, JAX does not know how to
    # spread it over the other devices; the barrier makes JAX copy it to them.
    return list(jax.lax.optimization_barrier(results))


def _pass_on(*arrays: Any, **_: Any) -> list[Any]:
    return list(arrays)


def _lower(ctx: Any, *values: Any, op: str, **_: Any) -> Any:
    if ctx.module_context.lowering_parameters.for_export:
        raise TracingError(
            f"{op}: a host function cannot be exported. Its kernel or formula is annotated "
            "numpy.ndarray, and is Python, which an exported program does not hold. Write it for jax.Array, "
            "or as an FFI call."
        )
    _refuse_some_axes(ctx.module_context.axis_context, op)
    return [[value] for value in values]


def _refuse_some_axes(context: Any, op: str) -> None:
    """Raises TracingError for a program that is partitioned manually along some axes: callbacks need all.

    (JAX's own error does not name the op.)
    """
    manual = frozenset(getattr(context, "manual_axes", ()))
    rest = [name for name in context.mesh.axis_names if name not in manual] if manual else []
    if rest:
        raise TracingError(
            f"{op}: a host function cannot run in a shard_map over only some axes of a mesh. It is over "
            f"{_join(manual)}, and XLA cuts along {_join(rest)}, where JAX has no callbacks. Leave "
            "axis_names out of shard_map, and name the other axes in its specs."
        )


def _join(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, sorted(map(str, names))))


def _batch(args: Any, dims: Any, *, op: str, is_ordered: bool) -> Any:
    if is_ordered:
        raise MissingRuleError(
            f"{op}: vmap of an op with Tag.ordered. The order of its side effects among the examples of a "
            "batch is not defined. Register one call for the whole batch with register_vmap, or loop over "
            "the examples, by jax.lax.map or in Python."
        )
    return _mark.bind(*args, op=op, is_ordered=is_ordered), dims


def refuse_derivative(*_: Any, op: str, **__: Any) -> NoReturn:
    """Raises the MissingRuleError of a host function whose derivative is needed."""
    raise MissingRuleError(
        f"{op}: a derivative of a host function is needed. Its kernel or formula is annotated "
        "numpy.ndarray, and JAX cannot look into it. Write the formula for jax.Array: then every higher "
        "order follows."
    )


_mark.multiple_results = True
_mark.def_impl(partial(xla.apply_primitive, _mark))
_mark.def_abstract_eval(_pass_on)
mlir.register_lowering(_mark, _lower)
batching.primitive_batchers[_mark] = _batch
ad.primitive_jvps[_mark] = refuse_derivative


def make_host_call(
    function: Callable[..., Sequence[Any]], shapes: tuple[jax.ShapeDtypeStruct, ...], *, op: str
) -> Callable[..., Values]:
    """Makes a function of arrays from a numpy function; it has no derivative of its own.

    Args:
        function: takes numpy arrays, and returns one per shape, or None for zeros.
        shapes: the shapes of the results.
        op: the name of its op, for errors.
    """

    def run(*arrays: Any) -> tuple[np.ndarray, ...]:
        results = function(*map(np.asarray, arrays))
        return tuple(
            np.zeros(shape.shape, shape.dtype) if result is None else np.asarray(result)
            for result, shape in zip(results, shapes, strict=True)
        )

    def call(*arrays: Any) -> Values:
        if any_traced(arrays):
            return tuple(call_host(run, shapes, arrays, op=op))
        return tuple(map(jnp.array, run(*arrays)))

    return call
