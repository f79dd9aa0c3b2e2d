"""The derivative of a call at a point: a function of residuals that is linear in the tangents."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import unmapped_aval

from oplib.autograd.array_functions.array_function import Mask, conjugate, has_gradient
from oplib.autograd.array_functions.array_types import match_type, zeros_of
from oplib.autograd.array_functions.compilation import is_uncompiled
from oplib.autograd.array_functions.masks import find_true, pick_true, spread
from oplib.errors import AutogradError, MissingRuleError
from oplib.library.arguments.structure import Structure
from oplib.library.batching_and_sharding.levels import Level, Levels, map_residuals, to_jax_array
from oplib.library.batching_and_sharding.varying import is_inside_shard_map, refuse_reduced, vary
from oplib.library.derivatives.formula import FormulaPlan, missing_formula
from oplib.library.derivatives.linearity import LinearRule, require_linear, transpose_rule
from oplib.library.infer_schema import infer_kind
from oplib.protocols import AnyFunction, Values

from .bound_call import BoundCall
from .rule_call import push_example


@dataclass(frozen=True, slots=True, repr=False)
class Linear:
    """The parameter of the primitive *op.lin*.

    The residuals are the inputs, if there is a jvp rule or the call has been differentiated before, and then
    the residuals of the backward formula, if there is one. The object holds no rule: rules are looked up when
    it is lowered or transposed.

    Attributes:
        call: the bound call.
        levels: the levels of vmap. Residuals are batched at all levels, tangents at those of their input.
        wanted: for each input, whether it has a tangent.
        differentiable: for each output, whether it has a tangent.
        avals: the avals of the output tangents, with their sharding.
        rule_residuals: the number of residuals for the jvp rule, or for the derivative of the kernel.
        is_outer: the call has been differentiated, and this is the derivative of its results once more. If no
            forward mode can be derived from the formula, it is JAX's derivative of the kernel.
        residual_count: the number of the primitive's arguments that are residuals.
        plan: the plan of the backward formula; None if there is none.
    """

    call: BoundCall
    levels: Levels
    wanted: Mask
    differentiable: Mask
    avals: Values
    rule_residuals: int
    residual_count: int
    plan: FormulaPlan | None
    is_outer: bool = False

    def __repr__(self) -> str:
        names = ", ".join(map(self.call.layout.find_argument, self.wanted_indices))
        return f"derivative of {self.call} by {names}"

    @property
    def wanted_indices(self) -> list[int]:
        """Returns the positions of the inputs that have a tangent."""
        return find_true(self.wanted)

    def batched(self, axis: Any) -> Linear:
        """Returns the derivative with one more level, at which every value is batched."""
        level = Level.of(axis, self.wanted)
        explicit = getattr(axis, "explicit_mesh_axis", None)
        avals = tuple(unmapped_aval(axis.size, 0, aval, explicit) for aval in self.avals)
        return replace(self, levels=(*self.levels, level), avals=avals)

    def trace(self, avals: Sequence[Any]) -> Any:
        """Returns the closed jaxpr of the derivative, on residuals and tangents of these types."""

        def run(*arrays: Any) -> list[Any]:
            zeros = list(map(zeros_of, self.avals))
            count = self.residual_count
            return list(self.push(arrays[:count], arrays[count:], zeros))

        return jax.make_jaxpr(run)(*avals)

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any], zeros: Sequence[Any]) -> Sequence[Any]:
        """Returns the tangents of the outputs, by the jvp rule or by the transposed backward formula.

        Args:
            residuals: the residuals of this derivative.
            tangents: the tangents of the wanted inputs.
            zeros: a zero like each output tangent.
        """
        if self.rule_residuals and not self.is_outer:
            return self._map(self._push_one, residuals, tangents)
        try:
            return self._transpose_backward(residuals, tangents, zeros)
        except (AutogradError, MissingRuleError) as refusal:
            if not self.is_outer:
                raise
            try:
                return self._map(self._push_kernel, residuals, tangents)
            except Exception as error:
                refusal.add_note(f"JAX cannot differentiate the kernel either: {error}")
                raise refusal from error

    def _map(self, function: AnyFunction, residuals: Sequence[Any], tangents: Sequence[Any]) -> Sequence[Any]:
        """Maps a function of the inputs and tangents of one example over the levels."""
        for level in self.levels:
            axes = tuple(0 if level.batched[index] else None for index in self.wanted_indices)
            function = level.map(function, (0, axes))
        return function(tuple(residuals[: self.rule_residuals]), tuple(tangents))

    def _push_kernel(self, inputs: Any, tangents: Any) -> Values:
        """Differentiates what ran, the kernel or the forward instead of it, by JAX."""
        call = self.call

        def run(*moving: Any) -> list[Any]:
            values = spread(moving, self.wanted, inputs)
            if call.record.derivative.forward is not None:
                outputs = call.run_forward((), self.wanted, values)[1]
            else:
                outputs = (call.run_plain((), values) if call.is_plain else call.run(*values))[1]
            return pick_true(outputs, self.differentiable)

        at = tuple(pick_true(inputs, self.wanted))
        return tuple(jax.jvp(run, at, tuple(tangents))[1])

    def _push_one(self, inputs: Any, tangents: Any) -> Values:
        _, outputs, pushed = push_example(self.call, self.wanted, inputs, tangents)
        pairs = zip(outputs, self.differentiable, strict=True)
        return tuple(compress(pushed, [has for value, has in pairs if has_gradient(value.dtype)]))

    def _transpose_backward(
        self, residuals: Sequence[Any], tangents: Sequence[Any], zeros: Sequence[Any]
    ) -> Sequence[Any]:
        """Returns the tangents by transposing the backward formula, which is linear in its cotangents."""
        if is_inside_shard_map():
            refuse_reduced([*residuals, *tangents], op=str(self.call))
        if self.call.record.derivative.nonlinear:
            raise MissingRuleError(
                f"{self.call}: there is no forward-mode rule. Its backward formula is declared nonlinear, so "
                "none can be derived from it by transposition. Register one with register_jvp."
            )
        backward = self.call.record.derivative.backward
        if backward is not None and infer_kind(backward) == "host":
            raise MissingRuleError(
                f"{self.call}: there is no forward-mode rule. Its backward formula is annotated "
                "numpy.ndarray and runs on the host, where JAX cannot transpose or differentiate it. Write "
                "the formula for jax.Array, or register a rule with register_jvp."
            )
        return transpose_rule(self._show_linear(residuals, zeros), residuals, zeros, tangents, str(self.call))

    def _show_linear(self, residuals: Sequence[Any], zeros: Sequence[Any]) -> LinearRule:
        """Returns the backward formula for transposition; the check is made once per signature."""
        declared = LinearRule(self.pull, is_given=True)
        assert self.plan is not None
        signature = self.plan.token, self.levels, tuple(map(jax.typeof, [*residuals, *zeros]))
        if is_uncompiled() or signature in self.call.checked:
            return declared
        running = threading.get_ident(), signature
        if running in self.call.checked:
            raise AutogradError(
                f"{self.call}: no forward mode can be derived from the backward formula, because the formula "
                "takes forward mode of the op itself. Call the kernel in it, or register a rule with "
                "register_jvp."
            )
        self.call.checked.add(running)
        try:
            rule = require_linear(self.pull, residuals, zeros, str(self.call))
        finally:
            self.call.checked.discard(running)
        if rule.is_given:
            self.call.checked.add(signature)
        return rule

    def pull(
        self, residuals: Sequence[Any], cotangents: Sequence[Any], present: Mask | None = None
    ) -> Values:
        """Returns the gradients of the wanted inputs, by the backward formula.

        Args:
            residuals: the residuals of this derivative.
            cotangents: the given cotangents of the differentiable outputs.
            present: for each of these outputs, whether it has a cotangent; None means all.
        """
        function = partial(self._pull_one, present or (True,) * len(self.avals))
        for level in self.levels:
            function = _map_and_sum(function, level, self.wanted_indices)
        saved = tuple(map(to_jax_array, residuals[self.rule_residuals :]))
        return function(saved, tuple(cotangents))

    def _pull_one(self, present: Mask, residuals: Any, cotangents: Any) -> Values:
        """Computes one example; the formula's complex gradients are the conjugates of JAX's."""
        plan = self.plan
        assert plan is not None
        rest = iter(present)
        mask = tuple([differentiable and next(rest) for differentiable in plan.differentiable])
        grads = plan.backward(mask).function(*residuals, *map(conjugate, cotangents))
        return tuple(
            self._make_zero(index, shape) if grad is None else conjugate(grad)
            for index, (grad, shape, want) in enumerate(zip(grads, plan.inputs, plan.wanted, strict=True))
            if want
        )

    def _make_zero(self, index: int, shape: Any) -> Any:
        """Returns the zero gradient that a formula declares by None.

        For a number, for which None is often returned without intent, it raises MissingRuleError.
        """
        layout = self.call.layout
        name = layout.find_argument(index)
        if name in self.call.record.operand:
            raise MissingRuleError(
                f"{self.call}: a derivative by argument '{name}' was asked for, and the backward formula "
                "gives None for it. It is a number that is an operand, so a gradient may flow into it. "
                "Return its gradient, or an array of zeros if it has none."
            )
        zeros, plan = zeros_of(shape), self.plan
        if plan is None or plan.types is None:
            return zeros
        due = plan.types.inputs[index].to_ct_aval()
        axes = due.manual_axis_type.unreduced
        zeros = vary(match_type(zeros, due), axes)
        return jax.lax.pcast(zeros, tuple(axes), to="unreduced") if axes else zeros


def _map_and_sum(function: Any, level: Level, indices: Sequence[int]) -> Any:
    """Maps a backward over a level; sums the gradient of an unbatched input over the batch."""
    mapped = level.map(function, (0, 0))

    def summed(residuals: Any, cotangents: Any) -> Values:
        grads = mapped(residuals, cotangents)
        return tuple(
            grad if level.batched[index] else jnp.sum(grad, axis=0)
            for index, grad in zip(indices, grads, strict=True)
        )

    return summed


def make_linear(
    call: BoundCall,
    levels: Levels,
    wanted: Mask,
    *,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    structure: Structure | None = None,
    planned: tuple[FormulaPlan, Sequence[Any]] | None = None,
    is_outer: bool = False,
) -> tuple[Linear, Values]:
    """Makes the derivative of a call at its inputs, and its residuals.

    Args:
        call: the bound call.
        levels: the levels of vmap.
        wanted: for each input, whether it has a tangent.
        inputs: the arrays of the call, batched according to the levels.
        outputs: its results, batched at all levels.
        structure: the structure of the results, if it is known.
        planned: the plan and the intermediates, if a forward has run.
        is_outer: the call has been differentiated before.

    Raises:
        MissingRuleError: the op has neither a jvp rule nor a backward formula.
    """
    record = call.record
    if record.jvp is None and record.derivative.backward is None:
        raise _refuse_derivative(call)
    tangent_avals = [jax.typeof(value).to_tangent_aval() for value in outputs]
    # the mapped rules expect the axis of every level in their residuals
    batch_fully = map_residuals(lambda values, _: values, levels)
    batched_inputs = batch_fully(tuple(inputs), ()) if inputs else ()
    is_outer = is_outer and record.jvp is None
    plan, residuals = None, [*batched_inputs] if record.jvp is not None or is_outer else []
    rule_residuals = len(residuals)
    differentiable = tuple(has_gradient(aval.dtype) for aval in tangent_avals)
    if record.derivative.backward is not None:
        plan, extras = planned or call.plan(wanted, inputs, outputs, levels=levels, structure=structure)
        pool = [*batched_inputs, *outputs, *extras]
        residuals += [pool[source] for source in plan.sources]
        differentiable = plan.differentiable
    linear = Linear(
        call=call,
        levels=levels,
        wanted=wanted,
        differentiable=differentiable,
        avals=tuple(pick_true(tangent_avals, differentiable)),
        rule_residuals=rule_residuals,
        residual_count=len(residuals),
        plan=plan,
        is_outer=is_outer,
    )
    return linear, tuple(residuals)


def _refuse_derivative(call: BoundCall) -> MissingRuleError:
    """Returns the error for a transformation of JAX that differentiates an op without rules."""
    if call.record.derivative.missing is not None or call.record.is_function:
        return missing_formula(call.overload)
    if call.record.schema.is_mutable:
        return MissingRuleError(
            f"{call}: jax.grad, jax.jvp or a transformation made of them asked for a derivative, and the op "
            f"writes an argument, so it can have no rule. Got {call.record.schema}. Create a functional "
            "operator that returns the new value, and register a rule for that."
        )
    derive = "" if call.record.kind == "host" else ', or "derive" for JAX\'s own derivative of the kernel'
    return MissingRuleError(
        f"{call}: jax.grad, jax.jvp or a transformation made of them asked for a derivative, but no autograd "
        f"formula was registered, and no jvp rule. Use register_autograd for a backward formula{derive}, "
        "from which forward mode follows; or register_jvp, from which reverse mode does."
    )
