"""A Pallas kernel with a fallback: gelu(x) * y by Pallas on TPUs, in plain JAX everywhere else."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.experimental import pallas as pl

import oplib


@oplib.custom_op("first_hour::geglu")
def geglu(x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns gelu(x) * y, with the tanh form of gelu."""
    return jax.nn.gelu(x) * y


def body(x_ref: Any, y_ref: Any, out_ref: Any) -> None:
    out_ref[...] = jax.nn.gelu(x_ref[...]) * y_ref[...]


@geglu.register_kernel("tpu")
def by_pallas(x: jax.Array, y: jax.Array) -> jax.Array:
    return launch(x, y)


def launch(x: jax.Array, y: jax.Array, *, interpret: bool = False) -> jax.Array:
    rows, columns = x.shape
    block = pl.BlockSpec((8, columns), lambda row: (row, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(
        body,
        grid=(pl.cdiv(rows, 8),),
        in_specs=[block, block],
        out_specs=block,
        out_shape=shape,
        interpret=interpret,
    )
    return call(x, y)


@geglu.register_autograd(
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
def differentiate(ctx: oplib.library.Context, grad: jax.Array) -> Any:
    x, y = ctx.saved_tensors
    gated, pull = jax.vjp(jax.nn.gelu, x)
    return (*pull(grad * y), grad * gated)


def main() -> None:
    x, y = jax.random.normal(jax.random.key(0), (2, 16, 128))
    np.testing.assert_allclose(launch(x, y, interpret=True), geglu(x, y), rtol=1e-5, atol=1e-6)
    ours, theirs = (
        jax.grad(lambda x, y, call=call: call(x, y).sum(), (0, 1))(x, y)
        for call in (geglu, lambda x, y: jax.nn.gelu(x) * y)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for platform, kernels in (("cpu", 0), ("tpu", 1)):
        program = export.export(jax.jit(lambda x, y: geglu(x, y)), platforms=[platform])(x, y)
        assert program.mlir_module().count("@tpu_custom_call") == kernels
    tensor = oplib.Tensor.from_array(x, requires_grad=True)
    geglu(tensor, oplib.Tensor.from_array(y)).sum().backward()
    oplib.testing.assert_close(tensor.grad, ours[0])
    assert jnp.isfinite(jax.vmap(geglu)(x[None], y[None])).all()


if __name__ == "__main__":
    main()
