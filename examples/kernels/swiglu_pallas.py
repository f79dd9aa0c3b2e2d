"""The gate of SwiGLU, ``silu(a) * b``, as one Pallas kernel for the forward and one for the backward.

The two kernels are compiled on TPUs, and on GPUs by Triton. Pallas's interpreter runs them on other
platforms; lowering decides which. Run this file to see it. Inside ``jax.shard_map`` the interpreter, unlike
the compilers, requires ``check_vma=False``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from oplib.library import custom_op

ROWS, COLUMNS = 8, 128  # of a block; Triton requires powers of two


# The kernels for one block ------------------------------------------------------------------------------


def gate(a: Any, b: Any, out: Any) -> None:
    """Writes ``silu(a) * b``."""
    out[...] = jax.nn.silu(a[...]) * b[...]


def gate_backward(a: Any, b: Any, g: Any, grad_a: Any, grad_b: Any) -> None:
    """Writes both gradients; reads each input once."""
    sigmoid = jax.nn.sigmoid(a[...])
    silu = a[...] * sigmoid
    grad_a[...] = g[...] * b[...] * (sigmoid + silu * (1 - sigmoid))
    grad_b[...] = g[...] * silu


def launch(
    kernel: Any, *arrays: jax.Array, results: int, interpret: bool = False, params: Any = None
) -> list[jax.Array]:
    """Runs a kernel over all blocks of equal matrices; the results are such matrices too."""
    rows, columns = arrays[0].shape
    width = min(pl.next_power_of_2(columns), COLUMNS)
    block = pl.BlockSpec((ROWS, width), lambda row, column: (row, column))
    return pl.pallas_call(
        kernel,
        grid=(pl.cdiv(rows, ROWS), pl.cdiv(columns, width)),
        in_specs=[block] * len(arrays),
        out_specs=[block] * results,
        out_shape=[shape_like(arrays[0])] * results,
        interpret=interpret,
        compiler_params=params,
    )(*arrays)


def shape_like(x: jax.Array) -> jax.ShapeDtypeStruct:
    """Returns the shape of a result; in ``jax.shard_map`` it varies over the same axes as ``x``."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype, manual_axis_type=jax.typeof(x).manual_axis_type)


# The ops ------------------------------------------------------------------------------------------------


@custom_op("examples::swiglu")
def swiglu(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``silu(a) * b`` of two f32[rows, columns]."""
    return launch(gate, a, b, results=1, interpret=True)[0]


@swiglu.register_kernel("tpu")
def _(a: jax.Array, b: jax.Array) -> jax.Array:
    return launch(gate, a, b, results=1)[0]


@swiglu.register_kernel("gpu")
def _(a: jax.Array, b: jax.Array) -> jax.Array:
    return launch(gate, a, b, results=1, params=triton.CompilerParams())[0]


@custom_op("examples::swiglu_backward")
def swiglu_backward(a: jax.Array, b: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the gradients of both arguments of ``swiglu``, from the gradient of its result."""
    grad_a, grad_b = launch(gate_backward, a, b, g, results=2, interpret=True)
    return grad_a, grad_b


@swiglu_backward.register_kernel("tpu")
def _(a: jax.Array, b: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    grad_a, grad_b = launch(gate_backward, a, b, g, results=2)
    return grad_a, grad_b


@swiglu_backward.register_kernel("gpu")
def _(a: jax.Array, b: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    grad_a, grad_b = launch(gate_backward, a, b, g, results=2, params=triton.CompilerParams())
    return grad_a, grad_b


# Derivatives: the first by the kernel above, higher orders by the plain function ------------------------


def plain(a: jax.Array, b: jax.Array) -> jax.Array:
    """Computes the same in plain JAX."""
    return jax.nn.silu(a) * b


def save_inputs(ctx: Any, inputs: Any, output: Any) -> None:
    """Saves all inputs for the backward."""
    ctx.save_for_backward(*inputs)


@swiglu.register_autograd(setup_context=save_inputs)
def _(ctx: Any, g: jax.Array) -> tuple[jax.Array, jax.Array]:
    return swiglu_backward(*ctx.saved_tensors, g)


@swiglu.register_jvp
def _(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    return jax.jvp(plain, primals, tangents)


@swiglu_backward.register_autograd(setup_context=save_inputs)
def _(ctx: Any, g_a: jax.Array, g_b: jax.Array) -> tuple[jax.Array, ...]:
    def pull(a: jax.Array, b: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.vjp(plain, a, b)[1](g)

    return jax.vjp(pull, *ctx.saved_tensors)[1]((g_a, g_b))


# Batches and meshes -------------------------------------------------------------------------------------


def fold_batch(op: Callable[..., Any]) -> Callable[..., Any]:
    """Makes the batching rule: a batch of matrices becomes one matrix with more rows, for one launch."""

    def rule(info: Any, in_dims: Any, *arrays: jax.Array) -> tuple[Any, int]:
        batched = [
            jnp.broadcast_to(x, (info.batch_size, *x.shape)) if dim is None else jnp.moveaxis(x, dim, 0)
            for x, dim in zip(arrays, in_dims, strict=True)
        ]
        size, rows, columns = batched[0].shape
        folded = op(*(x.reshape(size * rows, columns) for x in batched))
        return jax.tree.map(lambda y: y.reshape(size, rows, columns), folded), 0

    return rule


swiglu.register_vmap(fold_batch(swiglu))
swiglu_backward.register_vmap(fold_batch(swiglu_backward))
swiglu.register_sharding("i j, i j -> i j")
swiglu_backward.register_sharding("i j, i j, i j -> i j, i j")


if __name__ == "__main__":
    import oplib

    a, b = (jax.random.normal(key, (16, 128)) for key in jax.random.split(jax.random.key(0)))
    print("off by at most", float(abs(swiglu(a, b) - plain(a, b)).max()))
    x = oplib.Tensor.from_array(a, requires_grad=True)
    swiglu(x, oplib.Tensor.from_array(b)).sum().backward()
    print(
        "gradient off by at most", float(abs(x.grad.array - jax.grad(lambda a: plain(a, b).sum())(a)).max())
    )
