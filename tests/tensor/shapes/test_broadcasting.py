"""The gradients of what is broadcast: halves are added in single, as in torch."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib

COUNT = 5000
SMALL = 2e-4  # a half that adds 5,000 of them one by one ends at 0.5 or 1.03
FORMS = {
    "x + wide": lambda x: x + oplib.ones(COUNT, 1, dtype=x.dtype),
    "x * wide": lambda x: oplib.ones(COUNT, 1, dtype=x.dtype) * x,
    "expand": lambda x: x.expand(COUNT, 1),
    "broadcast_to": lambda x: oplib.broadcast_to(x, (COUNT, 1)),
    "part of a view": lambda x: x.expand(COUNT, 3)[:, 1:2],
    "where": lambda x: oplib.where(oplib.ones(COUNT, 1, dtype=oplib.bool), x, x),
    "linear": lambda x: oplib.nn.functional.linear(
        oplib.ones(COUNT, 2, dtype=x.dtype), oplib.ones(1, 2, dtype=x.dtype), x
    ),
    "conv1d": lambda x: (
        oplib.conv1d(oplib.ones(1, COUNT, dtype=x.dtype), oplib.ones(1, 1, 1, dtype=x.dtype), x).mT
    ),
    "prelu": lambda x: oplib.prelu(-oplib.ones(COUNT, 1, dtype=x.dtype), x),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("form", FORMS)
def test_many_small_gradients_of_one_half_add_up(form: str, dtype: str) -> None:
    x = oplib.ones(1, dtype=getattr(oplib, dtype), requires_grad=True)
    result = FORMS[form](x)
    given = oplib.full((COUNT, 1), SMALL, dtype=x.dtype)
    result.backward(given)
    assert x.grad is not None
    assert x.grad.dtype == x.dtype
    size = -1 if form == "prelu" else 1
    assert x.grad.item() == pytest.approx(size * given.float().sum().item(), rel=0.005)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["add", "mul", "sub"])
def test_so_they_do_on_arrays(name: str, dtype: str) -> None:
    op: Any = getattr(oplib.ops.oplib, name)
    wide, given = jnp.ones((COUNT, 1), dtype), jnp.full((COUNT, 1), SMALL, dtype)
    _, pull = jax.vjp(lambda x: op(wide, x), jnp.ones((), dtype))
    (grad,) = jax.jit(pull)(given)
    size = -1 if name == "sub" else 1
    assert float(grad) == pytest.approx(size * float(given.astype(jnp.float32).sum()), rel=0.005)


def test_the_compiled_forward_converts_nothing() -> None:
    add: Any = jax.jit(oplib.ops.oplib.add)
    wide = jnp.ones((64, 8), jnp.bfloat16)
    single = add.lower(wide, wide).compile().as_text()
    spread = add.lower(wide, wide[0]).compile().as_text()
    assert spread.count(" convert(") == single.count(" convert(")
