"""How a model lies on devices: data parallel, tensor parallel, fully sharded, or as a pipeline of layers."""

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P

import oplib
from gpt import Apply, apply_blocks

MICROBATCHES = 4

# The axes of the mesh that can share each parameter. The first dim of the blocks is that of the layers.
SPECS = {
    "letters": P("model", "data"),
    "positions": P(None, "data"),
    "blocks.norm1": P(None, "data"),
    "blocks.inward": P(None, "data", None, "model", None),
    "blocks.outward": P(None, "model", None, "data"),
    "blocks.norm2": P(None, "data"),
    "blocks.up": P(None, "data", "model"),
    "blocks.down": P(None, "model", "data"),
    "norm": P("data"),
}


def choose_spec(name: str, *, fsdp: bool, pipeline: bool) -> P:
    """Returns the axes of the mesh that share a parameter.

    The devices of ``model`` have a part of each layer, or in a pipeline some whole layers. Those of ``data``
    have copies, or a part of each parameter with ``fsdp``.
    """
    shared = {"data"} if fsdp else set()
    if pipeline and name.startswith("blocks."):
        return P("model", *(axis if axis in shared else None for axis in SPECS[name][1:]))
    shared |= set() if pipeline else {"model"}
    return P(*(axis if axis in shared else None for axis in SPECS[name]))


def make_pipeline(mesh: Mesh) -> Apply:
    """Returns an op that applies layers of which each device of the axis ``model`` has some.

    The rows of a device are cut into microbatches. In each turn a device applies its layers to one of them,
    and hands the result to the next device. JAX differentiates the op.

    Source: Huang and others, "GPipe", 2019.
    """
    stages = mesh.shape["model"]
    ring = [(stage, (stage + 1) % stages) for stage in range(stages)]

    @oplib.custom_op("lm::pipeline", autograd="derive")
    @jax.shard_map(mesh=mesh, in_specs=(P("data"), P("model")), out_specs=P("data"))
    def pipeline(x: jax.Array, weights: list[jax.Array]) -> jax.Array:
        stage = jax.lax.axis_index("model")
        parts = jax.lax.pcast(x.reshape(MICROBATCHES, -1, *x.shape[1:]), "model", to="varying")

        def take_turn(received: jax.Array, turn: jax.Array) -> tuple[jax.Array, jax.Array]:
            part = jnp.where(stage == 0, parts[jnp.minimum(turn, MICROBATCHES - 1)], received)
            part = apply_blocks(part, weights)
            return jax.lax.ppermute(part, "model", ring), part

        turns = jnp.arange(MICROBATCHES + stages - 1)
        _, done = jax.lax.scan(take_turn, jnp.zeros_like(parts[0]), turns)
        last = jnp.where(stage == stages - 1, done[stages - 1 :], 0)
        return jax.lax.psum(last, "model").reshape(x.shape)

    return pipeline
