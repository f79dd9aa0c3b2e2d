"""The derivative of a call at a point: a function of residuals that is linear in the tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import unmapped_aval

from oplib.autograd.array_function import Mask, has_gradient
from oplib.errors import AutogradError, MissingRuleError

from .bound_call import BoundCall
from .formula import missing_formula
from .levels import Level, Levels, map_residuals
from .linearity import check_linear
from .setup import plan_formula


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """The parameter of the primitive *op.lin*.

    Attributes:
        call: the op.
        levels: of vmap; tangents that exist are batched at every level added after differentiation.
        wanted: for each input, whether it has a tangent.
        differentiable: for each output, whether it has a tangent.
        avals: of the output tangents, with their sharding.
        tangent_shapes: shape and dtype of the tangents per example, for the wanted inputs.
        residual_count: how many arguments of the primitive are residuals.
        rule: ``(residuals, tangents) -> output tangents``, from a jvp rule; None if there is none.
        backward: ``(residuals, cotangents) -> gradients of the wanted inputs``; None if there is none.
    """

    call: BoundCall
    levels: Levels
    wanted: Mask
    differentiable: Mask
    avals: tuple[Any, ...]
    residual_count: int
    rule: Callable[..., Any] | None
    backward: Callable[..., Any] | None

    @property
    def wanted_places(self) -> list[int]:
        """The inputs that have a tangent."""
        return [place for place, want in enumerate(self.wanted) if want]

    def batched(self, axis: Any) -> Linear:
        """The same with one more level, at which everything is batched."""
        level = Level.of(axis, self.wanted)
        explicit = getattr(axis, "explicit_mesh_axis", None)
        avals = tuple(unmapped_aval(axis.size, 0, aval, explicit) for aval in self.avals)
        return replace(self, levels=(*self.levels, level), avals=avals)

    def transpose_backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        """Forward mode from the backward formula, which is linear in its cotangents."""
        if self.call.record.derivative.nonlinear:
            raise MissingRuleError(
                f"{self.call}: there is no forward-mode rule. Its backward formula is declared nonlinear, so "
                "none can be derived from it by transposition. Register one with register_jvp."
            )

        def tangents(residuals: Any, given: Any) -> Any:
            cotangents = [jnp.zeros(aval.shape, aval.dtype) for aval in self.avals]
            check_linear(backward, residuals, cotangents, str(self.call))
            return jax.linear_transpose(lambda *values: tuple(backward(residuals, values)), *cotangents)(
                tuple(given)
            )

        return tangents


def make_linear(
    call: BoundCall, levels: Levels, wanted: Mask, inputs: Sequence[Any], outputs: Sequence[Any]
) -> tuple[Linear, tuple[Any, ...]]:
    """Makes the derivative of a call at its inputs, and the residuals it needs there."""
    record = call.record
    tangent_avals = [jax.typeof(value).to_tangent_aval() for value in outputs]
    differentiable = tuple(has_gradient(aval.dtype) for aval in tangent_avals)
    rule, rule_residuals = (None, ()) if record.jvp is None else (_make_rule(call, wanted), tuple(inputs))
    backward, residuals, marked = None, (), differentiable
    if record.derivative.backward is not None:
        backward, residuals, marked = _make_backward(call, levels, wanted, inputs, outputs)
    elif record.jvp is None:
        raise missing_formula(call.overload)
    split = len(rule_residuals)
    linear = Linear(
        call=call,
        levels=levels,
        wanted=wanted,
        differentiable=marked,
        avals=tuple(aval for aval, has in zip(tangent_avals, marked, strict=True) if has),
        residual_count=split + len(residuals),
        rule=None if rule is None else lambda values, tangents: rule(values[:split], tangents),
        backward=None
        if backward is None
        else lambda values, cotangents: backward(values[split:], cotangents),
    )
    return linear, (*_batch_unbatched(rule_residuals, levels), *residuals)


def _batch_unbatched(inputs: Sequence[Any], levels: Levels) -> tuple[Any, ...]:
    """Gives residuals every level's axis, as the mapped rules expect them."""
    if not levels or not inputs:
        return tuple(inputs)
    return tuple(map_residuals(lambda values, _: values, levels)(tuple(inputs), ()))


def _make_backward(
    call: BoundCall, levels: Levels, wanted: Mask, inputs: Sequence[Any], outputs: Sequence[Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], Mask]:
    """The backward formula for one example, its residuals at all levels, and which outputs have gradients."""

    def residuals(values: Any, results: Any) -> Any:
        structure = call.shapes(values)[0]
        plan, extras = plan_formula(
            call.overload, call.layout, structure, wanted=wanted, inputs=values, outputs=results
        )
        pool = [*values, *results, *extras]
        return plan, tuple(pool[source] for source in plan.sources)

    plan, saved = map_residuals(residuals, levels)(tuple(inputs), tuple(outputs))
    shapes = [shape for shape, want in zip(plan.inputs, plan.wanted, strict=True) if want]

    def backward(values: Any, cotangents: Any) -> tuple[Any, ...]:
        grads = plan.backward(plan.differentiable).function(*values, *cotangents)
        return tuple(
            jnp.zeros(shape.shape, shape.dtype) if grad is None else grad
            for grad, shape in zip(grads, shapes, strict=True)
        )

    return backward, saved, plan.differentiable


def _make_rule(call: BoundCall, wanted: Mask) -> Callable[..., Any]:
    """The user's jvp rule for one example: ``rule(primals, tangents) -> (outputs, output tangents)``."""

    def rule(inputs: Any, tangents: Any) -> tuple[Any, ...]:
        rest = iter(tangents)
        flat = [next(rest) if want else None for want in wanted]
        arguments = call.layout.rebuild(inputs)
        given = call.layout.rebuild_tangents(flat)
        rule_function = call.record.jvp
        assert rule_function is not None
        outputs, results = rule_function(tuple(arguments), tuple(given))
        return _flatten_tangents(call, outputs, results)

    return rule


def _flatten_tangents(call: BoundCall, outputs: Any, tangents: Any) -> tuple[Any, ...]:
    """One tangent per differentiable output, zeros for None."""
    leaves = jax.tree_util.tree_leaves(outputs)
    given = jax.tree_util.tree_leaves(tangents, is_leaf=lambda value: value is None)
    if len(leaves) != len(given):
        raise AutogradError(
            f"{call}: the jvp rule returned {len(given)} tangents for {len(leaves)} outputs. "
            f"Return (outputs, tangents) of the same structure, None for a zero tangent."
        )
    return tuple(
        jnp.zeros_like(leaf) if tangent is None else tangent
        for leaf, tangent in zip(leaves, given, strict=True)
        if has_gradient(jnp.result_type(leaf))
    )
