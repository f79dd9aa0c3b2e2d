"""One run of a function as plain Python, which keeps what the backward needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero

from .array_function import ArrayFunction, Arrays, BackwardPlan, Mask, register_plan, spread_gradients
from .residual_function import apply_pull, linearize


def record_plain_run(
    origin: ArrayFunction, function: Callable[..., Arrays], wanted: Mask, arrays: Arrays
) -> Arrays:
    """Runs a function once, and returns ``(plan, *outputs, *residuals)``.

    Args:
        origin: the same function, from which derivatives of the backward are made.
        function: what is run.
        wanted: for each array, whether its gradient is needed.
        arrays: the inputs, whose values are known.
    """
    outputs, pull = linearize(function, wanted, arrays)
    leaves, structure = jax.tree_util.tree_flatten(pull)
    plan = PlainPlan(origin, wanted, arrays, outputs, leaves, structure)
    return plan, *outputs, *(leaves[place] for place in plan.extra_places)


class PlainPlan(BackwardPlan):
    """The plan of such a run.

    The residuals are the inputs, of which derivatives of the backward are functions, and then the arrays that
    the run has kept.

    Args:
        origin: what is differentiated.
        wanted: for each input, whether its gradient is computed.
        inputs: of the run.
        outputs: of the run.
        leaves: what JAX has kept. Those that are no arrays stay in the plan.
        structure: how JAX puts the backward together from them.

    Attributes:
        extra_places: which leaves are arrays.
    """

    __slots__ = ("_constants", "_origin", "_structure", "_types", "extra_places")

    def __init__(
        self,
        origin: ArrayFunction,
        wanted: Mask,
        inputs: Arrays,
        outputs: Arrays,
        leaves: Sequence[Any],
        structure: Any,
    ) -> None:
        self.extra_places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
        first_extra = len(inputs) + len(outputs)
        extras = range(first_extra, first_extra + len(self.extra_places))
        super().__init__(wanted, outputs, (*range(len(inputs)), *extras))
        self._origin = origin
        self._structure = structure
        self._constants = [None if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
        self._types = tuple(map(jax.typeof, outputs))

    @property
    def op_name(self) -> str:  # noqa: D102  described in BackwardPlan
        return self._origin.name

    def _make_backward(self, given: Mask) -> ArrayFunction:
        # The rule holds in every transformation of JAX, also where a mapped plan takes this function.
        function = jax.custom_jvp(self._pull_back(given))
        function.defjvp(self._push_from_inputs(given), symbolic_zeros=True)
        backward = spread_gradients(function, self.wanted)
        return ArrayFunction(backward, self._origin.name, compiled=False, is_formula=True)

    def _pull_back(self, given: Mask) -> Callable[..., Arrays]:
        """The gradients from residuals and the given cotangents."""
        first, last = self.input_count, len(self.sources)

        def pull_back(*values: Any) -> Arrays:
            leaves = list(self._constants)
            for place, value in zip(self.extra_places, values[first:last], strict=True):
                leaves[place] = value
            pull = jax.tree_util.tree_unflatten(self._structure, leaves)
            return apply_pull(pull, values[last:], given, types=self._types, flags=self.differentiable)

        return pull_back

    def _push_from_inputs(self, given: Mask) -> Callable[[Any, Any], tuple[Arrays, Arrays]]:
        """The derivative of the gradients: the function is differentiated again, at its inputs."""
        first, last = self.input_count, len(self.sources)
        full = self._origin.vjp(self.wanted, given).function

        def push(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Arrays, Arrays]:
            values, moved = [*primals[:first], *primals[last:]], [*tangents[:first], *tangents[last:]]
            places = [place for place, one in enumerate(moved) if not isinstance(one, SymbolicZero)]

            def move(*varied: Any) -> Arrays:
                current = dict(zip(places, varied, strict=True))
                return full(*(current.get(place, value) for place, value in enumerate(values)))

            at, along = tuple(values[place] for place in places), tuple(moved[place] for place in places)
            return jax.jvp(move, at, along)

        return push


register_plan(PlainPlan)
