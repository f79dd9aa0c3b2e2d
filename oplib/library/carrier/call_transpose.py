"""``jax.linear_transpose`` of an op: its backward formula, or the transpose of its derivative."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun
from jax.interpreters import ad

from oplib.autograd.array_functions.array_function import Mask
from oplib.errors import AutogradError
from oplib.library.axes.levels import Levels
from oplib.library.derivatives.expressions import Expressions

from .bound_call import BoundCall
from .linear import Linear, make_linear
from .linear_primitive import make_zero


def transpose_call(
    cotangents: Any, *args: Any, call: BoundCall, levels: Levels, call_jaxpr: Any = None, **_: Any
) -> list[Any]:
    """Transposes the primitive *op* in the operands that JAX does not know.

    Raises:
        AutogradError: the rule reads one of these operands, so the op is not linear in them.
    """
    moves = tuple(map(ad.is_undefined_primal, args))
    inputs = [make_zero(arg.aval) if move else arg for arg, move in zip(args, moves, strict=True)]
    record = call.record
    if record.derivative.constant is not None:
        return [None] * len(args)
    if record.is_transparent and record.jvp is None:
        grads = _transpose_kernel(cotangents, inputs, moves, call.trace(levels, inputs, derivable=True))
    else:
        avals = getattr(call_jaxpr, "out_avals", None) or call.trace(levels, inputs).out_avals
        outputs = list(map(make_zero, avals))
        linear, residuals = make_linear(call, levels, moves, inputs=inputs, outputs=outputs)
        pairs = zip(cotangents, linear.differentiable, strict=True)
        grads = _pull(linear, residuals, [cotangent for cotangent, has in pairs if has])
    rest = iter(grads)
    return [next(rest) if move else None for move in moves]


def _transpose_kernel(cotangents: Any, inputs: Sequence[Any], moves: Mask, closed: Any) -> Sequence[Any]:
    """Transposes a kernel that JAX differentiates."""
    run = jaxpr_as_fun(closed)

    def apply(*moving: Any) -> list[Any]:
        rest = iter(moving)
        return run(*[next(rest) if move else value for value, move in zip(inputs, moves, strict=True)])

    zeros = [value for value, move in zip(inputs, moves, strict=True) if move]
    return jax.linear_transpose(apply, *zeros)(list(map(ad.instantiate_zeros, cotangents)))


def _pull(linear: Linear, residuals: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
    """Runs the backward formula, or the transposed jvp rule, if it reads known values only."""
    present = tuple(not isinstance(cotangent, ad.Zero) for cotangent in cotangents)
    if linear.plan is not None:
        arriving = [cotangent for cotangent, has in zip(cotangents, present, strict=True) if has]
        _require_known(linear, jax.make_jaxpr(lambda *at: linear.pull(at, arriving, present))(*residuals))
        return linear.pull(residuals, arriving, present)
    zeros = list(map(make_zero, linear.avals))
    tangents = [jnp.zeros_like(residuals[index]) for index in linear.wanted_indices]
    _require_known(linear, jax.make_jaxpr(lambda *at: linear.push(at, tangents, zeros))(*residuals))
    pushed = jax.vjp(lambda *moving: tuple(linear.push(residuals, moving, zeros)), *tangents)
    return pushed[1](tuple(map(ad.instantiate_zeros, cotangents)))


def _require_known(linear: Linear, closed: Any) -> None:
    """Raises if a rule reads an operand that is transposed, or a value that was computed from it."""
    is_rule = linear.plan is None
    # A jvp rule gets zeros as the tangents of known operands, and it is linear in them.
    expressions = Expressions(absorbs=is_rule)
    leaves = [expressions.make(("residual", index)) for index in range(len(closed.in_avals))]
    results = expressions.read(closed, leaves)
    for name, leaf in zip(_name_unknown(linear), leaves, strict=True):
        if name is not None and any(expressions.depends(result, [leaf]) for result in results):
            rule = "jvp rule" if is_rule else "backward formula"
            raise AutogradError(
                f"{linear.call}: jax.linear_transpose needs an op that is linear in the transposed operands, "
                f"and the {rule} reads {name}. Take jax.vjp at a point, or transpose in other operands."
            )


def _name_unknown(linear: Linear) -> Iterator[str | None]:
    """Gives for each residual its name if it depends on a transposed operand, and None otherwise."""
    plan, layout = linear.plan, linear.call.layout
    inputs = [
        f"'{layout.find_argument(index)}', which is transposed" if move else None
        for index, move in enumerate(linear.wanted)
    ]
    yield from inputs[: linear.rule_residuals]
    if plan is None:
        return
    outputs = ["a result, which is not known"] * len(plan.outputs)
    pool = [*inputs, *outputs]
    is_unknown = any(pool[index] is not None for index in plan.extra_reads)
    intermediate = "a value that was computed from transposed operands" if is_unknown else None
    yield from (pool[source] if source < len(pool) else intermediate for source in plan.sources)
