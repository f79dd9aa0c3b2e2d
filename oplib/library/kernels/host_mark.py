"""A mark on what a host function is given, by which JAX says with an op's name what it cannot do with it.

A callback knows no op, and some of what it cannot do it says late or not at all. So the arrays for one pass
through a primitive that does nothing, and answers for the callback behind it. It stands beside the carrier
because nothing else may touch ``jax.interpreters``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from oplib.errors import MissingRuleError, TracingError

_mark = Primitive("host_call")


def call_host(
    function: Any, shapes: Sequence[jax.ShapeDtypeStruct], arrays: Sequence[Any], *, op: str
) -> list[Any]:
    """Puts a function of numpy arrays into a trace.

    Args:
        function: gets arrays of which numpy makes its own, and returns one for each shape.
        shapes: of the results.
        arrays: its arguments; at least one is traced.
        op: whose kernel or formula it is.
    """
    marked = _mark.bind(*arrays, op=op)
    results = jax.pure_callback(function, list(shapes), *marked, vmap_method="sequential")
    # A callback runs on one device, and where its result is that of a jitted function, JAX cannot tell how it
    # is spread over the others: the barrier has it copied to them.
    return list(jax.lax.optimization_barrier(results))


def _pass_on(*arrays: Any, **_: Any) -> list[Any]:
    return list(arrays)


def _lower(ctx: Any, *values: Any, op: str) -> Any:
    if ctx.module_context.lowering_parameters.for_export:
        raise TracingError(
            f"{op}: what runs on the host cannot be exported. Its kernel or formula is annotated "
            "numpy.ndarray, and is Python, which an exported program does not hold. Write it for jax.Array, "
            "or as an FFI call."
        )
    _refuse_some_axes(ctx.module_context.axis_context, op)
    return [[value] for value in values]


def _refuse_some_axes(context: Any, op: str) -> None:
    """Raises where a callback would stand in a program that is cut by hand along some axes of a mesh only.

    Raises:
        TracingError: it would; JAX says the same, and of no op.
    """
    manual = frozenset(getattr(context, "manual_axes", ()))
    rest = [name for name in context.mesh.axis_names if name not in manual] if manual else []
    if rest:
        raise TracingError(
            f"{op}: what runs on the host cannot run in a shard_map over some axes of a mesh. It is over "
            f"{_join(manual)}, and XLA cuts along {_join(rest)}, where JAX has no callbacks. Leave "
            "axis_names out of shard_map, and name the other axes in its specs."
        )


def _join(names: Iterable[Any]) -> str:
    return ", ".join(repr(name) for name in sorted(map(str, names)))


def _batch(args: Any, dims: Any, *, op: str) -> Any:
    return _mark.bind(*args, op=op), dims


def _refuse_derivative(_primals: Any, _tangents: Any, *, op: str) -> NoReturn:
    raise MissingRuleError(
        f"{op}: a derivative is needed of what runs on the host. Its kernel or formula is annotated "
        "numpy.ndarray, and JAX cannot look into it. Write the formula for jax.Array: then every higher "
        "order follows."
    )


_mark.multiple_results = True
_mark.def_impl(partial(xla.apply_primitive, _mark))
_mark.def_abstract_eval(_pass_on)
mlir.register_lowering(_mark, _lower)
batching.primitive_batchers[_mark] = _batch
ad.primitive_jvps[_mark] = _refuse_derivative
