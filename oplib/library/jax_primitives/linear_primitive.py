"""The primitive *op.lin* of the carrier: evaluation, lowering, shapes, derivative and transposition.

It is the derivative of a call, and linear in the tangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir, xla

from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.masks import Mask, pick_true, spread
from oplib.errors import CapturedTracerError, MissingRuleError
from oplib.library.batching_and_sharding.levels import to_jax_array
from oplib.library.batching_and_sharding.varying import fit_varying
from oplib.protocols import AnyFunction

from .linear import Linear


def apply_linear(primitive: Primitive, *arrays: Any, linear: Linear, **life: Any) -> Any:
    """Runs the primitive *op.lin* on values: compiled, or as plain Python."""
    if linear.call.record.is_plain or is_uncompiled():
        return run_linear(*arrays, linear=linear)
    if not linear.call.applies_itself:
        return xla.apply_primitive(primitive, *arrays, linear=linear, **life)
    return linear.call.apply(linear, partial(_run_late, linear=linear))(*arrays)


def run_linear(*arrays: Any, linear: Linear) -> list[Any]:
    """Evaluates the primitive *op.lin*: output tangents from residuals and input tangents."""
    residuals, tangents = arrays[: linear.residual_count], arrays[linear.residual_count :]
    with jax.named_scope(linear.call.record.name):
        zeros = list(map(make_zero, linear.avals))
        outputs = linear.push(residuals, tangents, zeros)
        return fit_varying(outputs, linear.avals, op=str(linear.call), part="jvp rule")


def _run_late(*arrays: Any, linear: Linear, **_: Any) -> list[Any]:
    """Evaluates the primitive *op.lin* in a program of its own, when the trace of its call may be over."""
    _refuse_captured(arrays, linear)
    return run_linear(*arrays, linear=linear)


def _refuse_captured(arrays: Sequence[Any], linear: Linear) -> None:
    """Raises if forward mode would be derived from a formula that closes over a value of another trace.

    Reverse mode is no such case: it runs the formula while the trace of the call lasts.
    """
    if not linear.call.is_transient or (linear.rule_residuals and not linear.is_outer):
        return
    try:
        closed = jax.jit(partial(run_linear, linear=linear)).trace(*arrays).jaxpr
        captures = len(closed.in_avals) > len(arrays)
    except (jax.errors.UnexpectedTracerError, CapturedTracerError):
        captures = True
    if captures:
        raise MissingRuleError(
            f"{linear.call}: there is no forward-mode rule. Its backward formula closes over a traced value, "
            "so none can be derived from it by transposition, which runs when the trace of this value is "
            "over. Register one with register_jvp, which may close over the value, or make it an argument of "
            "the op."
        )


lower_linear = mlir.lower_fun(_run_late, multiple_results=True)


def find_linear_avals(*_avals: Any, linear: Linear, **_: Any) -> list[Any]:
    """Returns the avals of output tangents: those of the outputs, with their sharding."""
    return list(linear.avals)


def differentiate_linear(primals: Any, tangents: Any, *, linear: Linear, **_: Any) -> Any:
    """Differentiates the implementation of *op.lin*; every higher order is JAX's own."""
    return push_varied(partial(run_linear, linear=linear), primals, tangents)


def transpose_linear(cotangents: Any, *args: Any, linear: Linear, **_: Any) -> list[Any]:
    """Runs the backward formula, for the transposed tangents."""
    count = linear.residual_count
    if linear.plan is None:
        raise MissingRuleError(
            f"{linear.call}: there is no reverse-mode rule. Its jvp rule is declared nonlinear, so none can "
            "be derived from it by transposition. Register one with register_autograd."
        )
    present = find_moving(cotangents)
    arriving = list(map(to_jax_array, pick_true(cotangents, present)))
    with jax.named_scope(f"{linear.call.record.name}.backward"):
        grads = linear.pull(args[:count], arriving, present)
    return [None] * count + [
        grad if ad.is_undefined_primal(tangent) else None
        for grad, tangent in zip(grads, args[count:], strict=True)
    ]


def push_varied(function: AnyFunction, primals: Any, tangents: Any) -> Any:
    """Runs ``jax.jvp`` with respect to the values that have a tangent; the others cost nothing."""
    moves = find_moving(tangents)

    def varied(*values: Any) -> Any:
        return function(*spread(values, moves, primals))

    return jax.jvp(varied, tuple(pick_true(primals, moves)), tuple(pick_true(tangents, moves)))


def find_moving(tangents: Sequence[Any]) -> Mask:
    """Tells for each tangent or cotangent whether it is given; JAX has a symbolic zero for a missing one."""
    return tuple(not isinstance(tangent, ad.Zero) for tangent in tangents)


def list_zeros(values: Sequence[Any]) -> list[Any]:
    """Returns a symbolic zero as the tangent of each value."""
    return [ad.Zero(jax.typeof(value).to_tangent_aval()) for value in values]


def make_zero(aval: Any) -> Any:
    """Returns a zero with the sharding and the varying axes of an aval."""
    return ad.instantiate_zeros(ad.Zero(aval))
