"""Levels of vmap: how kernels and rules written for one example are mapped over batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from .bound_call import BoundCall
    from .linear import Linear


@dataclass(frozen=True, slots=True)
class Level:
    """One vmap around an op.

    Attributes:
        batched: for each input, whether it has this level's axis, in front.
        size: of the axis.
        name: of the axis, where the user gave one.
        spmd_name: mesh axis over which the axis is sharded.
    """

    batched: tuple[bool, ...]
    size: int
    name: str | None
    spmd_name: Any

    @classmethod
    def of(cls, axis: Any, batched: tuple[bool, ...]) -> Level:
        """Reads a level from JAX's axis data."""
        name = axis.name if isinstance(axis.name, str) else None
        return cls(batched, axis.size, name, axis.spmd_name)

    def map(self, function: Callable[..., Any], in_axes: Any) -> Callable[..., Any]:
        """Maps a function over this level; outputs have its axis in front."""
        options: dict[str, Any] = {"axis_size": self.size}
        if self.name is not None:
            options["axis_name"] = self.name
        if self.spmd_name is not None:
            options["spmd_axis_name"] = self.spmd_name
        return jax.vmap(function, in_axes=in_axes, out_axes=0, **options)

    @property
    def axes(self) -> tuple[int | None, ...]:
        """``in_axes`` of the inputs."""
        return tuple(0 if batched else None for batched in self.batched)


Levels = tuple[Level, ...]


def move_to_front(value: Any, dim: int | None) -> Any:
    """Moves a batched axis to the front; an unbatched value is left alone."""
    return value if dim is None else jnp.moveaxis(value, dim, 0)


def map_call(call: BoundCall, levels: Levels) -> Callable[..., Any]:
    """Maps a call over all levels, the innermost first; a registered batching rule stands for that one."""
    run = call.run
    if levels and call.record.vmap is not None:
        run, levels = partial(call.run_batched, levels[0]), levels[1:]
    for level in levels:
        run = level.map(run, level.axes)
    return run


def map_residuals(residuals: Callable[..., Any], levels: Levels) -> Callable[..., Any]:
    """Maps ``residuals(inputs, outputs)``; outputs are batched at every level."""
    for level in levels:
        residuals = level.map(residuals, (level.axes, 0))
    return residuals


def map_linear(linear: Linear) -> Callable[..., Any]:
    """Maps ``tangents(residuals, tangents)`` over the levels of a linear call."""
    if linear.rule is None:
        return linear.transpose_backward(map_backward(linear))
    function = linear.rule
    for level in linear.levels:
        tangent_axes = tuple(0 if level.batched[place] else None for place in linear.wanted_places)
        function = level.map(function, (0, tangent_axes))
    return function


def map_backward(linear: Linear) -> Callable[..., Any]:
    """Maps ``grads(residuals, cotangents)``; the gradient of an unbatched input is summed over the batch."""
    assert linear.backward is not None
    function = linear.backward
    for level in linear.levels:
        function = _map_and_sum(function, level, linear.wanted_places)
    return function


def _map_and_sum(function: Callable[..., Any], level: Level, places: Sequence[int]) -> Callable[..., Any]:
    mapped = level.map(function, (0, 0))

    def summed(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        grads = mapped(residuals, cotangents)
        return tuple(
            grad if level.batched[place] else jnp.sum(grad, axis=0)
            for place, grad in zip(places, grads, strict=True)
        )

    return summed
