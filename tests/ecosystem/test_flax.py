"""Networks of flax, nnx and linen, with ops among their layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from tests.ecosystem.packages import require
from tests.ecosystem.pairs import SHIFT, Pair, assert_close

nnx, linen, optax = require("flax.nnx"), require("flax.linen"), require("optax")

X = jnp.linspace(-2.0, 2.0, 24).reshape(12, 2)
Y = jnp.sin(X).sum(-1, keepdims=True)


class Net(nnx.Module):
    """A network whose second layer gets its parameter as it stands."""

    def __init__(self, bend: Callable[..., Any], scale: Callable[..., Any]) -> None:
        rngs = nnx.Rngs(0)
        self.bend, self.scale = bend, scale
        self.inner, self.outer = nnx.Linear(2, 8, rngs=rngs), nnx.Linear(8, 1, rngs=rngs)
        self.width = nnx.Param(jnp.linspace(0.5, 1.5, 8))

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.outer(self.scale(self.bend(self.inner(x)), self.width))


def train_nnx(bend: Callable[..., Any], scale: Callable[..., Any], remat: bool) -> tuple[list[float], Any]:
    net = Net(bend, scale)
    optimizer = nnx.Optimizer(net, optax.adam(0.05), wrt=nnx.Param)

    def loss_of(net: Any) -> Any:
        run = nnx.remat(lambda net, x: net(x)) if remat else Net.__call__
        return ((run(net, X) - Y) ** 2).mean()

    @nnx.jit
    def step(net: Any, optimizer: Any) -> Any:
        loss, grads = nnx.value_and_grad(loss_of)(net)
        optimizer.update(net, grads)
        return loss

    return [float(step(net, optimizer)) for _ in range(10)], nnx.to_pure_dict(nnx.state(net, nnx.Param))


@pytest.mark.parametrize("remat", [False, True], ids=["saved", "remat"])
def test_nnx_trains_as_with_the_rules_in_jax(bend: Pair, scale: Pair, remat: bool) -> None:
    losses, params = train_nnx(bend.op, scale.op, remat)
    expected_losses, expected = train_nnx(bend.in_jax, lambda x, w: scale.in_jax(x, w[...]), remat)
    assert losses[-1] < losses[0]
    assert_close((losses, params), (expected_losses, expected))


def test_nnx_maps_and_scans_ops(bend: Pair) -> None:
    @nnx.split_rngs(splits=3)
    @nnx.vmap(in_axes=0, out_axes=0)
    def make(rngs: Any) -> Any:
        return nnx.Linear(2, 2, rngs=rngs)

    def run(function: Callable[..., Any]) -> Any:
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def chain(x: Any, layer: Any) -> Any:
            return function(layer(x))

        return nnx.grad(lambda layers: chain(X, layers).sum())(make(nnx.Rngs(1)))

    found, expected = (nnx.to_pure_dict(run(function)) for function in bend)
    assert_close(found, expected)


def test_a_param_of_nnx_on_a_tensor_is_a_constant(scale: Pair) -> None:
    x = oplib.ones(2, 3, requires_grad=True)
    scale.op(x, nnx.Param(jnp.arange(3.0))).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), SHIFT + np.arange(3.0)[None].repeat(2, 0))


class Cell(linen.Module):
    """A recurrent cell with an op."""

    bend: Callable[..., Any]

    @linen.compact
    def __call__(self, carry: Any, x: Any) -> Any:
        carry = self.bend(linen.Dense(4)(jnp.concatenate([carry, x], -1)))
        return carry, carry


class Recurrent(linen.Module):
    """The cell along the rows, under `scan` and `remat` of linen."""

    bend: Callable[..., Any]
    scale: Callable[..., Any]

    @linen.compact
    def __call__(self, xs: Any) -> Any:
        cell = linen.scan(linen.remat(Cell), variable_broadcast="params", split_rngs={"params": False})
        _, rows = cell(self.bend)(jnp.zeros(4), xs)
        width = self.param("width", lambda _: jnp.linspace(0.5, 1.5, 4))
        return linen.Dense(1)(self.scale(rows, width))


def train_linen(bend: Callable[..., Any], scale: Callable[..., Any]) -> tuple[list[float], Any]:
    net, transformation = Recurrent(bend, scale), optax.adam(0.05)
    params = net.init(jax.random.key(0), X)
    state = transformation.init(params)

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda params: ((net.apply(params, X) - Y) ** 2).mean())(params)
        updates, state = transformation.update(grads, state)
        return loss, optax.apply_updates(params, updates), state

    losses = []
    for _ in range(10):
        loss, params, state = step(params, state)
        losses.append(float(loss))
    return losses, params


def test_linen_trains_as_with_the_rules_in_jax(bend: Pair, scale: Pair) -> None:
    losses, params = train_linen(bend.op, scale.op)
    assert losses[-1] < losses[0]
    assert_close((losses, params), train_linen(bend.in_jax, scale.in_jax))
