"""Filtered transformations of equinox over modules that hold ops, and ops that take modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from tests.ecosystem.packages import require
from tests.ecosystem.pairs import Pair, assert_close

eqx, optax = require("equinox"), require("optax")

X = jnp.linspace(-2.0, 2.0, 24).reshape(12, 2)
Y = jnp.sin(X).sum(-1)


def make_net(activation: Callable[..., Any]) -> Any:
    return eqx.nn.MLP(2, "scalar", 8, 2, activation=activation, key=jax.random.key(0))


def loss_of(net: Any, x: Any = X, y: Any = Y) -> Any:
    return ((jax.vmap(net)(x) - y) ** 2).mean()


def read_arrays(tree: Any) -> list[Any]:
    return jax.tree.leaves(eqx.filter(tree, eqx.is_array))


TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "filter_grad": lambda net: eqx.filter_grad(loss_of)(net),
    "filter_jit": lambda net: eqx.filter_jit(eqx.filter_grad(loss_of))(net),
    "filter_value_and_grad": lambda net: eqx.filter_value_and_grad(loss_of)(net),
    "filter_vjp": lambda net: eqx.filter_vjp(loss_of, net)[1](jnp.ones(()))[0],
    "filter_vmap": lambda net: eqx.filter_vmap(eqx.filter_grad(loss_of), in_axes=(None, 0, 0))(
        net, X[:, None], Y[:, None]
    ),
    "filter_checkpoint": lambda net: eqx.filter_grad(eqx.filter_checkpoint(loss_of))(net),
    "filter_jacrev": lambda net: eqx.filter_jacrev(lambda net: jax.vmap(net)(X))(net),
    "filter_closure_convert": lambda net: jax.grad(
        lambda x: eqx.filter_closure_convert(lambda x: net(x) ** 2, X[0])(x)
    )(X[0]),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_transformation_gives_what_it_gives_with_the_rule_in_jax(bend: Pair, name: str) -> None:
    found, expected = (read_arrays(TRANSFORMED[name](make_net(function))) for function in bend)
    assert found
    assert_close(found, expected)


def test_forward_mode_gives_what_it_gives_with_the_rule_in_jax(bend_forward: Pair) -> None:
    found, expected = (
        eqx.filter_jvp(jax.vmap(make_net(function)), (X,), (jnp.cos(X),)) for function in bend_forward
    )
    assert_close(found, expected)


def test_a_training_loop_gives_what_it_gives_with_the_rule_in_jax(bend: Pair) -> None:
    def train(activation: Callable[..., Any]) -> Any:
        net, transformation = make_net(activation), optax.adam(0.02)
        state = transformation.init(eqx.filter(net, eqx.is_array))

        @eqx.filter_jit(donate="all-except-first")
        def step(_: None, net: Any, state: Any) -> Any:
            loss, grads = eqx.filter_value_and_grad(loss_of)(net)
            updates, state = transformation.update(grads, state)
            return loss, eqx.apply_updates(net, updates), state

        losses = []
        for _ in range(10):
            loss, net, state = step(None, net, state)
            losses.append(float(loss))
        return losses, read_arrays(net)

    found, expected = map(train, bend)
    assert found[0][-1] < found[0][0]
    assert_close(found, expected)


FACTOR = 1.25
"""The rule of the op that takes a module gives so many times the derivative."""


class Affine(eqx.Module):
    """A module with a static part."""

    weight: jax.Array
    bias: jax.Array
    times: int = eqx.field(static=True, default=2)


@pytest.mark.usefixtures("forget_ops")
def test_an_op_takes_a_module_and_gives_its_gradient_in_the_same_structure() -> None:
    @oplib.custom_op("ecosystem::affine")
    def affine(module: Affine, x: jax.Array) -> jax.Array:
        return module.times * (x @ module.weight + module.bias)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.module, x = inputs
        ctx.save_for_backward(x)

    @affine.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        (x,), module, g = ctx.saved_tensors, ctx.module, FACTOR * ctx.module.times * g
        return Affine(x.T @ g, g.sum(0), module.times), g @ module.weight.T

    module = Affine(jnp.ones((2, 3)), jnp.zeros(3), times=3)
    found = eqx.filter_jit(eqx.filter_grad(lambda module: affine(module, X).sum()))(module)
    assert isinstance(found, Affine)
    assert found.times == 3
    expected = np.repeat(3 * FACTOR * np.asarray(X).sum(0)[:, None], 3, 1)
    np.testing.assert_allclose(found.weight, expected, atol=1e-5)
    np.testing.assert_allclose(found.bias, np.full(3, 3 * FACTOR * len(X)))
