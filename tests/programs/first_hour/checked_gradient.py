"""A checked gradient in a test: the check names a factor that is missing, and passes once it is there."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import OpCheckError


@oplib.custom_op("first_hour::log_cosh")
def log_cosh(x: jax.Array, scale: float = 2.0) -> jax.Array:
    """Returns log(cosh(scale * x)), for large x too."""
    scaled = jnp.abs(scale * x)
    return scaled + jnp.log1p(jnp.exp(-2 * scaled)) - jnp.log(2.0)


def save(ctx: oplib.library.Context, inputs: Any, output: jax.Array) -> None:
    x, ctx.scale = inputs
    ctx.save_for_backward(x)


def main() -> None:
    x = oplib.tensor([-30.0, -0.5, 0.25, 2.0], requires_grad=True)

    log_cosh.register_autograd(
        lambda ctx, g: (g * jnp.tanh(ctx.scale * ctx.saved_tensors[0]), None), setup_context=save
    )
    with pytest.raises(OpCheckError, match="a factor is missing"):
        oplib.library.opcheck(log_cosh, (x,))

    log_cosh.register_autograd(
        lambda ctx, g: (ctx.scale * g * jnp.tanh(ctx.scale * ctx.saved_tensors[0]), None), setup_context=save
    )
    assert set(oplib.library.opcheck(log_cosh, (x,)).values()) == {"SUCCESS"}
    assert oplib.autograd.gradcheck(log_cosh, (x.detach()[1:].requires_grad_(),), eps=1e-2, atol=1e-2)


if __name__ == "__main__":
    main()
