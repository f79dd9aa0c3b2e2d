"""Softmax of rows in Triton, through Pallas's Triton backend: one program, one row.

The kernel is for CUDA; on other platforms the op is a line of JAX. On a machine without a GPU this file runs
the kernel in Pallas's interpreter. (JAX 0.12 deprecates the backend. With the package jax-triton, ``launch``
would be a ``jax_triton.triton_call``, and the rest of this file stays the same.)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from oplib.library import custom_op


def softmax_row(x: Any, out: Any) -> None:
    """Processes one row in registers; Triton requires a length that is a power of two."""
    row = x[...]
    weights = jnp.exp(row - row.max(-1, keepdims=True))
    out[...] = weights / weights.sum(-1, keepdims=True)


def launch(x: jax.Array, *, interpret: bool = False) -> jax.Array:
    """Runs the kernel over all rows, padded to the next power of two."""
    rows, columns = x.shape
    width = pl.next_power_of_2(columns)
    padded = jnp.pad(x, ((0, 0), (0, width - columns)), constant_values=-jnp.inf)
    block = pl.BlockSpec((1, width), lambda row: (row, 0))
    return pl.pallas_call(
        softmax_row,
        grid=(rows,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(
            padded.shape, x.dtype, manual_axis_type=jax.typeof(x).manual_axis_type
        ),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
        interpret=interpret,
    )(padded)[:, :columns]


@custom_op("examples::softmax_rows")
def softmax_rows(x: jax.Array) -> jax.Array:
    """Returns the softmax of each row of f32[rows, columns]."""
    return jax.nn.softmax(x, axis=-1)


softmax_rows.register_kernel("cuda", launch)


def save_output(ctx: Any, inputs: Any, output: jax.Array) -> None:
    """Saves the result, which is all that the derivative needs."""
    ctx.save_for_backward(output)


@softmax_rows.register_autograd(setup_context=save_output)
def _(ctx: Any, g: jax.Array) -> jax.Array:
    (y,) = ctx.saved_tensors
    return y * (g - (g * y).sum(-1, keepdims=True))


@softmax_rows.register_vmap
def _(info: Any, in_dims: Any, x: jax.Array) -> tuple[jax.Array, int]:
    """Folds a batch of matrices into one matrix with more rows."""
    x = jnp.moveaxis(x, in_dims[0], 0)
    return softmax_rows(x.reshape(-1, x.shape[-1])).reshape(x.shape), 0


# Rows may be on different devices, but each row is on one device.
softmax_rows.register_sharding("i j -> i j need_replication={j}")


if __name__ == "__main__":
    x = jax.random.normal(jax.random.key(0), (4, 100))
    print("off by at most", float(abs(softmax_rows(x) - jax.nn.softmax(x)).max()))
    print(
        "kernel, interpreted: off by at most", float(abs(launch(x, interpret=True) - jax.nn.softmax(x)).max())
    )
