"""Levels of vmap: how kernels and rules for one example are mapped over batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import mapped_aval

from oplib.protocols import AnyFunction
from oplib.tensor.storage.map_level import MapAxis


@dataclass(frozen=True, slots=True, repr=False)
class Level:
    """One vmap around an op.

    Attributes:
        batched: for each input, whether it has the axis of this level, in front.
        size: the size of the axis.
        name: the name of the axis, if the user or ``oplib.vmap`` gave one.
        spmd_name: the mesh axis over which the axis is sharded.
    """

    batched: tuple[bool, ...]
    size: int
    name: str | MapAxis | None
    spmd_name: Any

    def __repr__(self) -> str:
        name = f"{self.name}: " if isinstance(self.name, str) else ""
        return f"vmap({name}{self.size}, in_axes={self.axes})"

    @classmethod
    def of(cls, axis: Any, batched: tuple[bool, ...]) -> Level:
        """Reads a level from JAX's axis data."""
        name = axis.name if isinstance(axis.name, (str, MapAxis)) else None
        return cls(batched, axis.size, name, axis.spmd_name)

    @property
    def randomness(self) -> str:
        """The randomness setting of ``oplib.vmap`` for random ops; ``jax.vmap`` has no such setting."""
        return self.name.randomness if isinstance(self.name, MapAxis) else "error"

    def map(self, function: AnyFunction, in_axes: Any) -> AnyFunction:
        """Maps a function over this level; the axis of the level is in front in the outputs."""
        options: dict[str, Any] = {"axis_size": self.size}
        if self.name is not None:
            options["axis_name"] = self.name
        if self.spmd_name is not None:
            options["spmd_axis_name"] = self.spmd_name
        return jax.vmap(function, in_axes=in_axes, out_axes=0, **options)

    @property
    def axes(self) -> tuple[int | None, ...]:
        """The ``in_axes`` of the inputs."""
        return tuple(0 if batched else None for batched in self.batched)


Levels = tuple[Level, ...]


def needs_axis(axis: Any, trace: Callable[[], Any]) -> bool:
    """Tells whether a function uses the name of an axis, as a collective does.

    Args:
        axis: JAX's axis data.
        trace: gives the jaxpr of the function. It is called if the axis has a name.
    """
    if not isinstance(axis.name, str):
        return False
    return any(getattr(effect, "name", None) == axis.name for effect in trace().effects)


def move_to_front(value: Any, dim: int | None, size: int | None = None) -> Any:
    """Moves a batch axis to the front. A value without one is unchanged, or broadcast to ``size``."""
    if dim is not None:
        return jnp.moveaxis(value, dim, 0) if dim else value
    if size is None:
        return value
    array = to_jax_array(value)
    return jnp.broadcast_to(array, (size, *array.shape))


def to_jax_array(value: Any) -> Any:
    """Converts a number of a jaxpr, which JAX passes as a number of Python with a dtype, to an array."""
    if isinstance(value, jax.Array):
        return value
    is_weak = jax.typeof(value).weak_type
    return jnp.asarray(value, None if is_weak else getattr(value, "dtype", None))


def take_examples(levels: Levels, arrays: Sequence[Any]) -> list[Any]:
    """Returns the types of one example of arrays, or of their types, that are batched according to levels."""
    example = [each if isinstance(each, ShapedArray) else jax.typeof(each) for each in arrays]
    for level in reversed(levels):
        pairs = zip(example, level.batched, strict=True)
        example = [mapped_aval(level.size, 0, aval) if own else aval for aval, own in pairs]
    return example


def take_first(values: Sequence[Any], shared: Sequence[bool]) -> tuple[list[Any], list[int | None]]:
    """Takes the first example of each value that all examples share; returns the values and their axes."""
    if not any(shared):
        return list(values), [0] * len(values)
    taken = [value[0] if is_shared else value for value, is_shared in zip(values, shared, strict=True)]
    return taken, [None if is_shared else 0 for is_shared in shared]


def map_residuals(function: AnyFunction, levels: Levels) -> AnyFunction:
    """Maps ``function(inputs, outputs)`` over all levels; outputs are batched at every level."""
    for level in levels:
        function = level.map(function, (level.axes, 0))
    return function
