"""The cost of an op in compiled code: the same as by hand with ``jax.custom_vjp``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.library import custom_op
from oplib.library.registration.registry import registry

OPCODE = re.compile(r"^\s*(?:ROOT )?%?[\w.-]+ = \S+ ([\w-]+)\(", re.MULTILINE)
FUSION = re.compile(r"\bfusion\(.*kind=(\w+)")
X, Y = jnp.linspace(0.5, 1.5, 12).reshape(3, 4), jnp.linspace(-1.0, 1.0, 4)


def soft_product(x: Any, y: Any, limit: float = 2.0) -> Any:
    return limit * jnp.tanh(x * y / limit)


def pull(saved: Any, grad: Any) -> Any:
    x, y, output = saved
    slope = grad * (1 - (output / 2.0) ** 2)
    return slope * y, (slope * x).sum(0) if x.ndim > y.ndim else slope * x


@jax.custom_vjp
def by_hand(x: Any, y: Any) -> Any:
    return soft_product(x, y)


by_hand.defvjp(lambda x, y: (soft_product(x, y), (x, y, soft_product(x, y))), pull)


@jax.custom_jvp
def pushed_by_hand(x: Any, y: Any) -> Any:
    return soft_product(x, y)


@pushed_by_hand.defjvp
def push(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    output = soft_product(x, y)
    return output, (1 - (output / 2.0) ** 2) * (dx * y + x * dy)


@pytest.fixture(scope="module")
def registered() -> Iterator[tuple[Any, Any]]:
    """Registers the same op with a backward formula, and with a jvp rule."""
    before = registry.save()

    @custom_op("hlo::soft_product")
    def op(x: jax.Array, y: jax.Array) -> jax.Array:
        return soft_product(x, y)

    op.register_autograd(
        lambda ctx, grad: pull(ctx.saved_tensors, grad),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output),
    )

    @custom_op("hlo::pushed")
    def pushed(x: jax.Array, y: jax.Array) -> jax.Array:
        return soft_product(x, y)

    pushed.register_jvp(push)
    yield op, pushed
    registry.restore(before)


def count_operations(function: Any, *args: Any) -> tuple[Counter[str], Counter[str]]:
    """Returns the operations of the optimised program by name, and its fusions by kind."""
    hlo = jax.jit(function).lower(*args).compile().as_text()
    return Counter(OPCODE.findall(hlo)), Counter(FUSION.findall(hlo))


def loss(op: Any) -> Any:
    return lambda x, y: op(op(x, y), y).sum()


PROGRAMS: dict[str, Any] = {
    "jit": loss,
    "jit of grad": lambda op: jax.grad(loss(op), argnums=(0, 1)),
    "grad by one argument": lambda op: jax.grad(loss(op)),
    "value_and_grad": lambda op: jax.value_and_grad(loss(op), argnums=(0, 1)),
    "vmap": lambda op: jax.vmap(op, (0, None)),
    "grad of vmap": lambda op: jax.grad(loss(jax.vmap(op, (0, None))), argnums=(0, 1)),
    "vmap of grad": lambda op: jax.vmap(jax.grad(loss(op)), (0, None)),
    "nested vmap": lambda op: jax.grad(loss(jax.vmap(jax.vmap(op), (0, None))), argnums=(0, 1)),
    "checkpoint": lambda op: jax.grad(jax.checkpoint(loss(op)), argnums=(0, 1)),
    "scan": lambda op: jax.grad(lambda x, y: jax.lax.scan(lambda c, v: (op(c, v), None), y, x)[0].sum()),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_optimised_program_is_that_of_custom_vjp(program: Any, registered: Any) -> None:
    mine, its = (count_operations(program(op), X, Y) for op in (registered[0], by_hand))
    assert mine == its
    assert mine[0]["tanh"] > 0  # checks that the counting works


def test_a_second_derivative_takes_no_more_operations(registered: Any) -> None:
    """JAX differentiates oplib's formula by fewer arguments, so the programs differ."""
    mine, its = (
        jax.jit(jax.grad(lambda x, y, op=op: jax.grad(loss(op))(x, y).sum()))
        for op in (registered[0], by_hand)
    )
    np.testing.assert_allclose(mine(X, Y), its(X, Y), rtol=1e-5, atol=1e-6)
    counts = [count_operations(run, X, Y)[0] for run in (mine, its)]
    assert counts[0] <= counts[1]


FORWARD: dict[str, Any] = {
    "jvp": lambda op: lambda x, y: jax.jvp(op, (x, y), (x, y)),
    "vmap of jvp": lambda op: jax.vmap(lambda x, y: jax.jvp(op, (x, y), (x, y)), (0, None)),
    "grad": lambda op: jax.grad(loss(op), argnums=(0, 1)),
}


@pytest.mark.parametrize("program", FORWARD.values(), ids=FORWARD)
def test_with_a_jvp_rule_it_is_that_of_custom_jvp(program: Any, registered: Any) -> None:
    mine, its = (count_operations(program(op), X, Y) for op in (registered[1], pushed_by_hand))
    assert mine == its
