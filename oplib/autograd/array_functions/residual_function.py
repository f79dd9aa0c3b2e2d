"""Array functions whose forward returns the residuals of the backward, so that the forward runs once.

The backward of any other array function computes the intermediate values that it needs again. That is cheap
for an op, and costs a whole loop for a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .array_function import (
    ArrayFunction,
    Arrays,
    BackwardPlan,
    Mask,
    conjugate,
    has_gradient,
    register_plan,
    spread_gradients,
)
from .array_types import match_type, sum_gradient


class ResidualFunction(ArrayFunction):
    """An array function whose outputs are all arrays, and whose residuals come out of its forward."""

    __slots__ = ()

    def recorder(self, wanted: Mask) -> Callable[..., Arrays]:
        """Returns ``(*inputs) -> (plan, *outputs, *extra residuals)``."""
        found = self._recorders.get(wanted)
        if found is None:

            def record(*arrays: Any) -> Arrays:
                outputs, pull = linearize(self.function, wanted, arrays)
                residuals, structure = jax.tree_util.tree_flatten(pull)
                plan = self._hold(ResidualPlan(self, wanted, arrays, outputs, residuals, structure))
                return plan, *outputs, *(residuals[place] for place in plan.extra_places)

            found = self._recorders[wanted] = jax.jit(self._name(record), inline=True)
        return found


def linearize(function: Callable[..., Arrays], wanted: Mask, arrays: Arrays) -> tuple[Arrays, Any]:
    """Returns the outputs, and JAX's function from the cotangents of the floating ones to gradients."""
    flags: list[bool] = []

    def partial(*varied: Any) -> tuple[list[Any], list[Any]]:
        rest = iter(varied)
        outputs = function(
            *(next(rest) if want else value for want, value in zip(wanted, arrays, strict=True))
        )
        flags[:] = [has_gradient(output.dtype) for output in outputs]
        floating = [output for output, flag in zip(outputs, flags, strict=True) if flag]
        return floating, [output for output, flag in zip(outputs, flags, strict=True) if not flag]

    varied = [value for want, value in zip(wanted, arrays, strict=True) if want]
    floating, pull, others = jax.vjp(partial, *varied, has_aux=True)
    pools = {True: iter(floating), False: iter(others)}
    return tuple(next(pools[flag]) for flag in flags), pull


def apply_pull(pull: Any, arrays: Sequence[Any], given: Mask, *, types: Arrays, flags: Mask) -> Arrays:
    """Applies the function that :func:`linearize` returned; zeros stand for missing cotangents.

    Args:
        pull: the function.
        arrays: the given cotangents, in the convention of the tape.
        given: for each output, whether it has a cotangent.
        types: the types of the outputs.
        flags: for each output, whether it can have a cotangent.
    """
    rest = iter(arrays)
    cotangents: list[Any] = []
    for has, kind, is_differentiable in zip(given, types, flags, strict=True):
        if is_differentiable:
            value = conjugate(next(rest)) if has else jnp.zeros(kind.shape, kind.dtype)
            cotangents.append(match_type(sum_gradient(value, kind), kind))
    return tuple(map(conjugate, pull(cotangents)))


class ResidualPlan(BackwardPlan):
    """The plan of such a function.

    Args:
        function: what is differentiated.
        wanted: for each input, whether its gradient is computed.
        inputs: of the call.
        outputs: of the call.
        residuals: what the backward reads.
        structure: how JAX puts the backward together from residuals.

    Attributes:
        extra_places: which residuals are neither inputs nor outputs.
    """

    __slots__ = ("_function", "_structure", "_types", "extra_places")

    def __init__(
        self,
        function: ResidualFunction,
        wanted: Mask,
        inputs: Arrays,
        outputs: Arrays,
        residuals: Sequence[Any],
        structure: Any,
    ) -> None:
        super().__init__(wanted, outputs, ())
        known = {id(value): place for place, value in enumerate((*inputs, *outputs))}
        first_extra = len(inputs) + len(outputs)
        self.extra_places = [place for place, one in enumerate(residuals) if id(one) not in known]
        numbers = {place: first_extra + number for number, place in enumerate(self.extra_places)}
        self.set_sources(
            [numbers[place] if place in numbers else known[id(one)] for place, one in enumerate(residuals)]
        )
        self._function = function
        self._structure = structure
        self._types = tuple(map(jax.typeof, outputs))
        if self.extra_places:
            self.extras = self._make_extras()
            self.extra_reads = tuple(range(len(inputs)))

    def _make_extras(self) -> ArrayFunction:
        """The residuals as a function of the inputs, for a backward that is recorded itself."""
        function, wanted, places = self._function.function, self.wanted, self.extra_places

        def compute(*arrays: Any) -> Arrays:
            residuals = jax.tree_util.tree_leaves(linearize(function, wanted, arrays)[1])
            return tuple(residuals[place] for place in places)

        return ArrayFunction(compute, self._function.name, compiled=self._function.compiled)

    @property
    def op_name(self) -> str:  # noqa: D102  described in Plan
        return self._function.name

    def _make_backward(self, given: Mask) -> ArrayFunction:
        pulled = spread_gradients(self._pull_back(given), self.wanted)
        name, compiled = self._function.name, self._function.compiled
        return ArrayFunction(pulled, name, compiled=compiled, is_formula=True, selects=self.selects)

    def _pull_back(self, given: Mask) -> Callable[..., Arrays]:
        """The gradients from residuals and the cotangents of some outputs; zeros stand for the others."""
        structure, count = self._structure, len(self.sources)

        def pull_back(*arrays: Any) -> Arrays:
            pull = jax.tree_util.tree_unflatten(structure, arrays[:count])
            return apply_pull(pull, arrays[count:], given, types=self._types, flags=self.differentiable)

        return pull_back


register_plan(ResidualPlan)
