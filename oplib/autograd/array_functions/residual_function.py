"""Array functions whose forward returns the residuals of the backward, so that the forward runs once.

The backward of any other array function computes the intermediate values that it needs again. The
second computation is cheap for an op, and costs a whole loop for a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero

from .array_function import (
    ArrayFunction,
    Arrays,
    BackwardPlan,
    Mask,
    bind_fixed,
    conjugate,
    has_gradient,
    register_plan,
    spread_gradients,
)
from .array_types import match_type, sum_gradient, zeros_of
from .masks import pick_true


class ResidualFunction(ArrayFunction):
    """An array function whose outputs are all arrays, and whose residuals come out of its forward."""

    __slots__ = ()

    def recorder(self, wanted: Mask) -> Callable[..., Arrays]:
        """Returns ``(*inputs) -> (plan, *outputs, *extra residuals)``."""
        recorder = self._recorders.get(wanted)
        if recorder is None:

            def record(*arrays: Any) -> Arrays:
                outputs, pull = self.linearize(wanted, arrays)
                residuals, structure = jax.tree_util.tree_flatten(pull)
                plan = self._hold(ResidualPlan(self, wanted, arrays, outputs, residuals, structure))
                return plan, *outputs, *(residuals[index] for index in plan.extra_indices)

            recorder = self._recorders[wanted] = jax.jit(self._name(record), inline=True)
        return recorder

    def linearize(self, wanted: Mask, arrays: Arrays) -> tuple[Arrays, Any]:
        """Returns the outputs, and the function from the cotangents of the floating ones to gradients."""
        return linearize(self.function, wanted, arrays)


def linearize(function: Callable[..., Arrays], wanted: Mask, arrays: Arrays) -> tuple[Arrays, Any]:
    """Returns the outputs, and JAX's function from the cotangents of the floating ones to gradients."""
    flags: list[bool] = []
    partial, varied = bind_fixed(function, arrays, wanted)

    def differentiated(*values: Any) -> tuple[list[Any], list[Any]]:
        outputs = partial(*values)
        flags[:] = [has_gradient(output.dtype) for output in outputs]
        floating = pick_true(outputs, flags)
        return floating, [output for output, flag in zip(outputs, flags, strict=True) if not flag]

    floating, pull, others = jax.vjp(differentiated, *varied, has_aux=True)
    pools = {True: iter(floating), False: iter(others)}
    return tuple(next(pools[flag]) for flag in flags), pull


class _PullPlan(BackwardPlan):
    """A plan whose backward is the function that :func:`linearize` returns, put together from its leaves.

    Attributes:
        extra_indices: the leaves that the call returns as extras.
    """

    __slots__ = ("_function", "_structure", "_types", "extra_indices")

    extra_indices: list[int]

    def __init__(
        self, function: ArrayFunction, wanted: Mask, outputs: Arrays, sources: Sequence[int], structure: Any
    ) -> None:
        super().__init__(wanted, outputs, sources)
        self._function = function
        self._structure = structure
        self._types = tuple(map(jax.typeof, outputs))

    @property
    def op_name(self) -> str:
        return self._function.name

    def _apply(self, leaves: Sequence[Any], cotangents: Arrays, present: Mask) -> Arrays:
        """Returns the gradients for the cotangents of some outputs; zeros stand for the others."""
        pull = jax.tree_util.tree_unflatten(self._structure, leaves)
        rest = iter(cotangents)
        filled: list[Any] = []
        for has, kind, is_differentiable in zip(present, self._types, self.differentiable, strict=True):
            if is_differentiable:
                value = conjugate(next(rest)) if has else zeros_of(kind)
                filled.append(match_type(sum_gradient(value, kind), kind))
        return tuple(map(conjugate, pull(filled)))


class ResidualPlan(_PullPlan):
    """The plan of a function whose residuals come out of its forward. The extras are residuals.

    Args:
        function: the function that is differentiated.
        wanted: for each input, whether its gradient is computed.
        inputs: of the call.
        outputs: of the call.
        residuals: the values that the backward reads.
        structure: how JAX puts the backward together from residuals.
    """

    __slots__ = ()

    def __init__(
        self,
        function: ResidualFunction,
        wanted: Mask,
        inputs: Arrays,
        outputs: Arrays,
        residuals: Sequence[Any],
        structure: Any,
    ) -> None:
        known = {id(value): index for index, value in enumerate((*inputs, *outputs))}
        first_extra = len(inputs) + len(outputs)
        self.extra_indices = [index for index, value in enumerate(residuals) if id(value) not in known]
        numbers = {index: first_extra + number for number, index in enumerate(self.extra_indices)}
        sources = [
            numbers[index] if index in numbers else known[id(value)] for index, value in enumerate(residuals)
        ]
        super().__init__(function, wanted, outputs, sources, structure)
        if self.extra_indices:
            self.extras = self._make_extras()
            self.extra_reads = tuple(range(len(inputs)))

    def _make_extras(self) -> ArrayFunction:
        """The residuals as a function of the inputs, for a backward that is recorded itself."""
        function: Any = self._function
        wanted, indices = self.wanted, self.extra_indices

        def compute(*arrays: Any) -> Arrays:
            residuals = jax.tree_util.tree_leaves(function.linearize(wanted, arrays)[1])
            return tuple(residuals[index] for index in indices)

        return ArrayFunction(compute, self._function.name, compiled=self._function.compiled)

    def _make_backward(self, present: Mask) -> ArrayFunction:
        count = len(self.sources)
        pulled = spread_gradients(
            lambda *arrays: self._apply(arrays[:count], arrays[count:], present), self.wanted
        )
        name, compiled = self._function.name, self._function.compiled
        return ArrayFunction(pulled, name, compiled=compiled, is_formula=True, selects=self.selects)


def record_plain_run(
    origin: ArrayFunction, function: Callable[..., Arrays], wanted: Mask, arrays: Arrays
) -> Arrays:
    """Runs a function once as plain Python, and returns ``(plan, *outputs, *residuals)``.

    Args:
        origin: the same function, from which derivatives of the backward are made.
        function: the function to run.
        wanted: for each array, whether its gradient is needed.
        arrays: the inputs, whose values are known.
    """
    outputs, pull = linearize(function, wanted, arrays)
    leaves, structure = jax.tree_util.tree_flatten(pull)
    plan = PlainPlan(origin, wanted, arrays, outputs, leaves, structure)
    return plan, *outputs, *(leaves[index] for index in plan.extra_indices)


class PlainPlan(_PullPlan):
    """The plan of a run as plain Python.

    The residuals are the inputs, of which derivatives of the backward are functions, and then the arrays that
    the run has kept, which are the extras.

    Args:
        origin: the function that is differentiated.
        wanted: for each input, whether its gradient is computed.
        inputs: of the run.
        outputs: of the run.
        leaves: the values that JAX has kept. Those that are no arrays stay in the plan.
        structure: how JAX puts the backward together from them.
    """

    __slots__ = ("_constants",)

    def __init__(
        self,
        origin: ArrayFunction,
        wanted: Mask,
        inputs: Arrays,
        outputs: Arrays,
        leaves: Sequence[Any],
        structure: Any,
    ) -> None:
        self.extra_indices = [index for index, leaf in enumerate(leaves) if isinstance(leaf, jax.Array)]
        first_extra = len(inputs) + len(outputs)
        extras = range(first_extra, first_extra + len(self.extra_indices))
        super().__init__(origin, wanted, outputs, (*range(len(inputs)), *extras), structure)
        self._constants = [None if isinstance(leaf, jax.Array) else leaf for leaf in leaves]

    def _make_backward(self, present: Mask) -> ArrayFunction:
        # The rule holds in every transformation of JAX, also where a mapped plan takes this function.
        function = jax.custom_jvp(self._pull_back(present))
        function.defjvp(self._push_from_inputs(present), symbolic_zeros=True)
        backward = spread_gradients(function, self.wanted)
        return ArrayFunction(backward, self._function.name, compiled=False, is_formula=True)

    def _pull_back(self, present: Mask) -> Callable[..., Arrays]:
        """The gradients from residuals and the given cotangents."""
        first, last = self.input_count, len(self.sources)

        def pull_back(*values: Any) -> Arrays:
            leaves = list(self._constants)
            for index, value in zip(self.extra_indices, values[first:last], strict=True):
                leaves[index] = value
            return self._apply(leaves, values[last:], present)

        return pull_back

    def _push_from_inputs(self, present: Mask) -> Callable[[Any, Any], tuple[Arrays, Arrays]]:
        """The derivative of the gradients: the function is differentiated again, at its inputs."""
        first, last = self.input_count, len(self.sources)
        full = self._function.vjp(self.wanted, present).function

        def push(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Arrays, Arrays]:
            values, moved = (*primals[:first], *primals[last:]), (*tangents[:first], *tangents[last:])
            is_moving = tuple(not isinstance(tangent, SymbolicZero) for tangent in moved)
            partial, at = bind_fixed(full, values, is_moving)
            return jax.jvp(partial, at, tuple(pick_true(moved, is_moving)))

        return push


register_plan(ResidualPlan)
register_plan(PlainPlan)
