"""The plan of a recorded call, mapped over a batch: how all examples differentiate at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import ArrayFunction, Arrays, BackwardPlan, Mask

CAPACITY = 1024


class MappedPlan(BackwardPlan):
    """The plan of a call inside of a map, as one of the call on all examples.

    All its outputs have the batch in front, whether or not their values did: a gradient for each example is
    right in either case, and is summed only where it leaves the map for something that is not mapped.

    Args:
        inner: the plan of one example.
        size: how many examples there are.
        residuals: for each residual, whether it is batched.
        reads: the same for what intermediates are computed from.
        targets: for each input, whether it has a gradient of its own in each example; else they are summed.
    """

    __slots__ = ("_backwards", "_inner", "_residuals", "_size", "_targets")

    def __init__(
        self, inner: BackwardPlan, size: int, *, residuals: Mask, reads: Mask, targets: Mask
    ) -> None:
        super().__init__(inner.wanted, (), ())
        self.outputs = tuple(None if shape is None else batch_shape(shape, size) for shape in inner.outputs)
        self.differentiable = inner.differentiable
        self.set_sources(inner.sources)
        self.names = inner.names
        self._inner = inner
        self._size = size
        self._residuals = residuals
        self._targets = targets
        self._backwards: dict[Mask, ArrayFunction] = {}
        if inner.extras is not None:
            mapped = map_function(inner.extras.function, size, reads)
            self.extras = ArrayFunction(mapped, inner.extras.name, compiled=inner.extras.compiled)
            self.extra_reads = inner.extra_reads
            self.gather_reads = inner.gather_reads

    def backward(self, given: Mask) -> ArrayFunction:  # noqa: D102  described in Plan
        found = self._backwards.get(given)
        if found is None:
            inner = self._inner.backward(given)
            function = map_backward(inner.function, self._size, self._residuals, self._targets)
            found = self._backwards[given] = ArrayFunction(function, inner.name, compiled=inner.compiled)
            if given == (True,):
                self.sole = found
        return found


@lru_cache(maxsize=CAPACITY)
def find_mapped_plan(
    inner: BackwardPlan, size: int, *, residuals: Mask, reads: Mask, targets: Mask
) -> MappedPlan:
    """Returns the plan of a plan mapped so: the same one each time, with what has been compiled for it."""
    return MappedPlan(inner, size, residuals=residuals, reads=reads, targets=targets)


def map_function(function: Callable[..., Arrays], size: int, batched: Mask) -> Callable[..., Arrays]:
    """Maps a function of arrays over the first axis of some; all results have it in front."""
    axes = tuple(0 if one else None for one in batched)

    def mapped(*arrays: Any) -> Arrays:
        rest = (0,) * (len(arrays) - len(axes))  # gradients, which are always batched
        return jax.vmap(function, in_axes=(*axes, *rest), axis_size=size)(*arrays)

    return mapped


def map_backward(
    function: Callable[..., Arrays], size: int, residuals: Mask, targets: Mask
) -> Callable[..., Arrays]:
    """Maps a backward; gradients of what is not mapped are summed over the examples."""
    mapped = map_function(function, size, residuals)

    def summed(*arrays: Any) -> Arrays:
        return tuple(
            grad if grad is None or own else jnp.sum(grad, axis=0)
            for grad, own in zip(mapped(*arrays), targets, strict=True)
        )

    return summed


def batch_shape(shape: Any, size: int) -> jax.ShapeDtypeStruct:
    """Puts the batch in front of a shape."""
    return jax.ShapeDtypeStruct((size, *shape.shape), shape.dtype)
