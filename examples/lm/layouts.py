"""How a model lies on devices: data parallel, tensor parallel, fully sharded, or as a pipeline of layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import oplib
from gpt import Apply, apply_block, apply_blocks
from oplib import Tensor

MICROBATCHES = 4

# The axis of each parameter that the devices of the axis "model" share in a tensor-parallel layout.
SPLIT = {"letters": 0, "blocks.inward": 3, "blocks.outward": 1, "blocks.up": 2, "blocks.down": 1}


@dataclass(frozen=True)
class Layout:
    """Where parameters and batches lie.

    Attributes:
        mesh: has the axes ``data`` and ``model``.
        fsdp: the devices of ``data`` share each parameter too, instead of having a copy each.
        pipeline: the devices of ``model`` have whole layers, instead of a part of each.
    """

    mesh: Mesh
    fsdp: bool = False
    pipeline: bool = False

    @property
    def rows(self) -> NamedSharding:
        """The sharding of a batch: each device has some rows."""
        return NamedSharding(self.mesh, PartitionSpec("data"))

    @property
    def whole(self) -> NamedSharding:
        """The sharding of arrays of which each device has a copy."""
        return NamedSharding(self.mesh, PartitionSpec())

    @cached_property
    def apply_blocks(self) -> Apply:
        """Applies the layers: a scan, or the pipeline."""
        return make_pipeline(self.mesh) if self.pipeline else apply_blocks

    def place(self, params: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
        """Returns the parameters as Tensors that require grad. Each process makes only its part."""
        placed: dict[str, Tensor] = {}
        for name, value in params.items():
            sharding = NamedSharding(self.mesh, self.choose(name, value.shape))
            array = jax.make_array_from_callback(value.shape, sharding, value.__getitem__)
            placed[name] = Tensor.from_array(array, requires_grad=True)
        return placed

    def choose(self, name: str, shape: tuple[int, ...]) -> PartitionSpec:
        """Returns the axes of the mesh that share a parameter."""
        axes: list[str | None] = [None] * len(shape)
        if self.pipeline and name.startswith("blocks."):
            axes[0] = "model"
        elif not self.pipeline and name in SPLIT:
            axes[SPLIT[name]] = "model"
        if self.fsdp:
            free = [index for index in range(len(shape)) if axes[index] is None]
            whole = [index for index in free if shape[index] % self.mesh.shape["data"] == 0]
            if whole:
                axes[max(whole, key=shape.__getitem__)] = "data"
        return PartitionSpec(*axes)


def make_layout(sizes: Mapping[str, int], *, fsdp: bool = False, pipeline: bool = False) -> Layout:
    """Returns the layout over the first devices, ``sizes["data"]`` times ``sizes["model"]`` of them."""
    shape = (sizes.get("data", 1), sizes.get("model", 1))
    mesh = jax.make_mesh(shape, ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    return Layout(mesh, fsdp, pipeline)


def make_pipeline(mesh: Mesh, microbatches: int = MICROBATCHES) -> Apply:
    """Returns an op that applies layers of which each device of the axis ``model`` has some.

    The rows of a device are cut into microbatches. In each turn a device applies its layers to one of them,
    and hands the result to the next device. JAX differentiates the op.

    Source: Huang and others, "GPipe", 2019.
    """
    stages = mesh.shape["model"]

    def run(x: jax.Array, weights: list[jax.Array]) -> jax.Array:
        stage = jax.lax.axis_index("model")
        parts = jax.lax.pcast(x.reshape(microbatches, -1, *x.shape[1:]), "model", to="varying")

        def turn(carry: tuple[Any, Any], number: jax.Array) -> tuple[tuple[Any, Any], None]:
            received, done = carry
            part = jnp.where(stage == 0, parts[jnp.minimum(number, microbatches - 1)], received)
            part, _ = jax.lax.scan(lambda part, layer: (apply_block(part, layer), None), part, weights)
            # Turns before the first part has arrived write where the first part comes to stand.
            done = done.at[jnp.maximum(number - stages + 1, 0)].set(part)
            return (
                jax.lax.ppermute(part, "model", [(i, (i + 1) % stages) for i in range(stages)]),
                done,
            ), None

        start = (jnp.zeros_like(parts[0]), jnp.zeros_like(parts))
        (_, done), _ = jax.lax.scan(turn, start, jnp.arange(microbatches + stages - 1))
        return jax.lax.psum(jnp.where(stage == stages - 1, done, 0), "model").reshape(x.shape)

    rows, layers = PartitionSpec("data"), PartitionSpec("model")
    spread = jax.shard_map(run, mesh=mesh, in_specs=(rows, layers), out_specs=rows)

    @oplib.custom_op("lm::pipeline", autograd="derive")
    def pipeline(x: jax.Array, weights: list[jax.Array]) -> jax.Array:
        return spread(x, weights)

    return pipeline
