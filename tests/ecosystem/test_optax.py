"""Transformations of optax over arrays and over Tensors, with gradients of an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.pytree import tree_map
from tests.ecosystem.packages import require
from tests.ecosystem.pairs import Pair, assert_close

optax = require("optax")

X = jnp.linspace(-2.0, 2.0, 24).reshape(12, 2)
Y = jnp.sin(X).sum(-1, keepdims=True)
PARAMS = {"b": jnp.full(4, 0.1), "v": jnp.linspace(-0.5, 0.5, 4)[:, None], "w": jnp.ones((2, 4)) / 3}

TRANSFORMATIONS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optax.sgd(0.05, momentum=0.9, nesterov=True),
    "adamw": lambda: optax.adamw(optax.cosine_decay_schedule(0.05, 20), weight_decay=0.01),
    "lion": lambda: optax.lion(0.01),
    "chain": lambda: optax.chain(optax.clip_by_global_norm(0.3), optax.scale_by_rms(), optax.scale(-0.02)),
    "accumulating": lambda: optax.MultiSteps(optax.adam(0.05), every_k_schedule=2).gradient_transformation(),
}


def loss_of(bend: Callable[..., Any], params: Any, x: Any, y: Any) -> Any:
    return ((bend(x @ params["w"] + params["b"]) @ params["v"] - y) ** 2).mean()


def train_arrays(bend: Callable[..., Any], transformation: Any, steps: int = 6) -> Any:
    params, state = PARAMS, transformation.init(PARAMS)

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        grads = jax.grad(lambda params: loss_of(bend, params, X, Y))(params)
        updates, state = transformation.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(steps):
        params, state = step(params, state)
    return params


each_transformation = pytest.mark.parametrize("name", TRANSFORMATIONS)


@each_transformation
def test_on_arrays_steps_are_those_with_the_rule_in_jax(bend: Pair, name: str) -> None:
    found, expected = (train_arrays(function, TRANSFORMATIONS[name]()) for function in bend)
    assert_close(found, expected)


@pytest.mark.matrix(4)
@each_transformation
@pytest.mark.parametrize("compile_step", [lambda step: step, oplib.jit], ids=["eager", "oplib.jit"])
def test_on_tensors_steps_are_those_on_arrays(bend: Pair, name: str, compile_step: Any) -> None:
    params = tree_map(lambda array: oplib.tensor(array, requires_grad=True), PARAMS)
    optimizer = oplib.optim.Optimizer(TRANSFORMATIONS[name](), params)
    x, y = oplib.tensor(X), oplib.tensor(Y)

    @compile_step
    def step() -> None:
        optimizer.zero_grad()
        loss_of(bend.op, params, x, y).backward()
        optimizer.step()

    for _ in range(6):
        step()
    found = tree_map(lambda tensor: tensor.detach().array, params)
    assert_close(found, train_arrays(bend.in_jax, TRANSFORMATIONS[name]()))


@each_transformation
def test_a_transformation_takes_trees_of_tensors(bend: Pair, name: str) -> None:
    transformation = TRANSFORMATIONS[name]()
    params = tree_map(oplib.tensor, PARAMS)
    state = transformation.init(params)
    for _ in range(6):
        arrays = tree_map(lambda tensor: tensor.array, params)
        grads = tree_map(oplib.tensor, jax.grad(lambda params: loss_of(bend.op, params, X, Y))(arrays))
        updates, state = transformation.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    found = tree_map(lambda tensor: tensor.array, params)
    assert_close(found, train_arrays(bend.in_jax, TRANSFORMATIONS[name]()))


def test_a_line_search_calls_the_op_in_its_loop(bend: Pair) -> None:
    def minimize(function: Callable[..., Any]) -> Any:
        transformation = optax.lbfgs()

        def loss(params: Any) -> Any:
            return loss_of(function, params, X, Y)

        @jax.jit
        def step(params: Any, state: Any) -> Any:
            value, grads = optax.value_and_grad_from_state(loss)(params, state=state)
            updates, state = transformation.update(
                grads, state, params, value=value, grad=grads, value_fn=loss
            )
            return optax.apply_updates(params, updates), state

        params, state = PARAMS, transformation.init(PARAMS)
        for _ in range(3):
            params, state = step(params, state)
        return params

    found, expected = map(minimize, bend)
    assert_close(found, expected)
    assert loss_of(bend.op, found, X, Y) < loss_of(bend.op, PARAMS, X, Y)
