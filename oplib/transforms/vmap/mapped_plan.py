"""The mapped plan of a recorded call: it differentiates all examples at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction, Arrays, BackwardPlan, Mask


class MappedPlan(BackwardPlan):
    """The plan of a call inside of a map, as a plan for all examples.

    All outputs have the batch in front, even if their values are the same in all examples. A gradient per
    example is correct in both cases. It is summed only where it leaves the map for a tensor that is not
    mapped.

    Args:
        inner: the plan of one example.
        size: the number of examples.
        residuals: for each residual, whether it is batched.
        reads: the same for the values that intermediates are computed from.
        targets: for each input, whether each example has its own gradient; otherwise gradients are summed.
    """

    __slots__ = ("_inner", "_residuals", "_size", "_targets")

    def __init__(
        self, inner: BackwardPlan, size: int, *, residuals: Mask, reads: Mask, targets: Mask
    ) -> None:
        shapes = [
            None if spec is None else jax.ShapeDtypeStruct((size, *spec.shape), spec.dtype)
            for spec in inner.outputs
        ]
        super().__init__(inner.wanted, shapes, inner.sources)
        self.differentiable, self.names = inner.differentiable, inner.names
        self.token = inner.token and self.token
        self._inner, self._size = inner, size
        self._residuals, self._targets = residuals, targets
        if inner.extras is not None:
            mapped = map_function(inner.extras.function, size, reads)
            self.extras = ArrayFunction(mapped, inner.extras.name, compiled=inner.extras.compiled)
            self.extra_reads = inner.extra_reads

    def _make_backward(self, present: Mask) -> ArrayFunction:
        inner = self._inner.backward(present)
        function = map_backward(inner.function, self._size, self._residuals, self._targets)
        return ArrayFunction(
            function,
            inner.name,
            compiled=inner.compiled,
            is_formula=inner.is_formula,
            selects=inner.selects,
        )


def find_mapped_plan(
    inner: BackwardPlan, size: int, *, residuals: Mask, reads: Mask, targets: Mask
) -> MappedPlan:
    """Returns the mapped plan of a plan. Equal arguments give the same object with its compiled functions.

    A plan without a token is that of one call only.
    """
    make = MappedPlan if inner.token is None else _find_plan
    return make(inner, size, residuals=residuals, reads=reads, targets=targets)


_find_plan = lru_cache(maxsize=1024)(MappedPlan)


def map_function(function: Callable[..., Arrays], size: int, batched: Mask) -> Callable[..., Arrays]:
    """Maps a function of arrays over the first axis of some. All results have the batch in front."""
    axes = tuple(0 if is_batched else None for is_batched in batched)

    def mapped(*arrays: Any) -> Arrays:
        rest = (0,) * (len(arrays) - len(axes))  # gradients, which are always batched
        return jax.vmap(function, in_axes=(*axes, *rest), axis_size=size)(*arrays)

    return mapped


def map_backward(
    function: Callable[..., Arrays], size: int, residuals: Mask, targets: Mask
) -> Callable[..., Arrays]:
    """Maps a backward. Gradients of inputs that are not mapped are summed over the examples."""
    mapped = map_function(function, size, residuals)

    def summed(*arrays: Any) -> Arrays:
        return tuple(
            grad if grad is None or own else jnp.sum(grad, axis=0)
            for grad, own in zip(mapped(*arrays), targets, strict=True)
        )

    return summed
