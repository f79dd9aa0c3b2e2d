"""Loops whose body has side effects, differentiated step by step.

The derivative that JAX takes of a whole loop leaves out what no result depends on, also a side effect, and
computes once what is the same in each step. So here each step of the forward differentiates the body, and
the backward is a loop of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import Arrays, Mask, has_gradient
from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.autograd.array_functions.residual_function import linearize

from .leaves import type_of_slice


@dataclass(frozen=True)
class Loop:
    """A loop over arrays: those that the body captures, the first carry, and those that are sliced.

    Attributes:
        call: the body: ``(*captured, *carry, *slices) -> results``.
        captured: the number of captured arrays.
        results: the number of results of a step.
        carried: the number of arrays that are carried on.
        length: the number of steps.
        reverse: the last slice comes first.
    """

    call: Any
    captured: int
    results: int
    carried: int
    length: int
    reverse: bool

    def __call__(self, *arrays: Any) -> Arrays:
        """Returns the last carry, and what the steps give beside it."""
        captured, init, xs = self._split(arrays)
        last, ys = self._scan(self.call, captured, init, xs)
        return *last, *ys

    def _split(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        first = self.captured
        last = first + self.carried
        return values[:first], values[first:last], values[last:]

    def _scan(self, call: Any, captured: Sequence[Any], init: Sequence[Any], xs: Sequence[Any]) -> Any:
        def step(carry: Any, slices: Any) -> Any:
            results = call(*captured, *carry, *slices)
            return tuple(results[: self.carried]), tuple(results[self.carried :])

        return jax.lax.scan(step, tuple(init), tuple(xs), self.length, self.reverse)

    def linearize(self, wanted: Mask, arrays: Arrays) -> tuple[Arrays, Any]:
        """Returns the outputs, and the function from the cotangents of the floating ones to gradients."""
        captured, init, xs = self._split(arrays)
        by_captured, by_init, by_xs = self._split(wanted)
        varied = (*by_captured, *[has_gradient(value.dtype) for value in init], *by_xs)
        structures: list[Any] = []

        def differentiate(*values: Any) -> list[Any]:
            outputs, pull = linearize(self.call, varied, values)
            residuals, structure = jax.tree_util.tree_flatten(pull)
            structures.append(structure)
            return [*outputs, *residuals]

        closed = jax.make_jaxpr(differentiate)(*captured, *init, *map(type_of_slice, xs))
        first, _, slices = self._split(closed.jaxpr.invars)
        known = {id(var): value for var, value in zip((*first, *slices), (*captured, *xs), strict=True)}
        count = self.results
        residuals = list(map(id, closed.jaxpr.outvars[count:]))
        kept = [*range(count), *[n for n, var in enumerate(residuals, count) if var not in known]]
        call = bind_jaxpr(closed)

        def run(*values: Any) -> list[Any]:
            results = call(*values)
            return [results[n] for n in kept]

        last, ys = self._scan(run, captured, init, xs)
        outputs, stacked = (*last, *ys[: count - self.carried]), iter(ys[count - self.carried :])
        fixed = {*map(id, first)}
        pull = _Pull(
            structures[0],
            tuple([var not in fixed for var in residuals]),
            (sum(by_captured), sum(varied) - sum(by_captured) - sum(by_xs)),
            tuple([want for want, value in zip(by_init, init, strict=True) if has_gradient(value.dtype)]),
            self.length,
            self.reverse,
        )
        zeros = [jnp.zeros_like(value) for value, want in zip(captured, by_captured, strict=True) if want]
        values = [known[var] if var in known else next(stacked) for var in residuals]
        return outputs, jax.tree_util.Partial(pull, values, zeros)


@dataclass(frozen=True)
class _Pull:
    """The backward of a loop: from residuals, sums that are zero, and cotangents to gradients.

    Attributes:
        structure: how JAX puts the backward of a step together.
        sliced: for each residual, whether each step has its own.
        counts: how many captured arrays, and how many parts of the carry, have a gradient in a step.
        wanted: for each such part of the carry, whether the loop gives its gradient.
        length: the number of steps.
        reverse: the direction of the forward.
    """

    structure: Any
    sliced: Mask
    counts: tuple[int, int]
    wanted: Mask
    length: int
    reverse: bool

    def __call__(self, values: Sequence[Any], zeros: Sequence[Any], cotangents: Sequence[Any]) -> Arrays:
        first, carried = self.counts
        last = first + carried
        sliced = pick_true(values, self.sliced)

        def step(state: Any, slices: Any) -> Any:
            sums, carry = state
            pull = jax.tree_util.tree_unflatten(self.structure, spread(slices[0], self.sliced, values))
            gradients = pull([*carry, *slices[1]])
            sums = tuple(map(jnp.add, sums, gradients[:first]))
            return (sums, tuple(gradients[first:last])), tuple(gradients[last:])

        state = tuple(zeros), tuple(cotangents[:carried])
        slices = sliced, list(cotangents[carried:])
        (sums, carry), by_slices = jax.lax.scan(step, state, slices, self.length, not self.reverse)
        own = pick_true(carry, self.wanted)
        return *sums, *own, *by_slices
