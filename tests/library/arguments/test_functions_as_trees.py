"""A callable that JAX takes apart, such as a layer, is a pytree: its leaves are inputs of the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError
from oplib.library import custom_op

X, W = jnp.array([0.3, -0.7, 1.1]), jnp.array([1.5, 2.0, -1.0])

pytestmark = pytest.mark.spec("D.47")


@jax.tree_util.register_dataclass
@dataclass(unsafe_hash=True)
class Layer:
    """As a Module: arrays are leaves, its hash is that of its leaves, which arrays have not."""

    weight: Any

    def __call__(self, x: Any) -> Any:
        return self.weight * x


@jax.tree_util.register_pytree_node_class
class Hashed:
    """Compared by identity, as objects are by default."""

    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def __call__(self, x: Any) -> Any:
        return self.weight * x

    def tree_flatten(self) -> tuple[Any, None]:
        return (self.weight,), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> Hashed:
        return cls(*leaves)


@jax.tree_util.register_dataclass
@dataclass
class Wrapper:
    """As the result of ``eqx.filter_jit``: a Module that holds a function."""

    function: Any

    def __call__(self, x: Any) -> Any:
        return jax.jit(self.function)(x)


def make_hashed(weight: Any) -> Hashed:
    return Hashed(weight)


def make_partial(weight: Any) -> Any:
    return jax.tree_util.Partial(jnp.multiply, weight)


def make_wrapper(weight: Any) -> Wrapper:
    return Wrapper(lambda x: weight * x)


HINTS: dict[str, Any] = {"Callable": Callable, "Callable[...]": Callable[..., Any], "Any": Any}
MAKERS = [Layer, make_hashed, make_partial, make_wrapper]
RUNS: dict[str, Callable[[Any], Any]] = {
    "call": lambda f: f(W, X),
    "jit": lambda f: jax.jit(f)(W, X),
    "vmap": lambda f: jax.vmap(f)(jnp.stack([W, X]), jnp.stack([X, X])),
    "grad": lambda f: jax.grad(lambda w, x: f(w, x).sum(), (0, 1))(W, X),
    "jit of grad": lambda f: jax.jit(jax.grad(lambda w, x: f(w, x).sum(), (0, 1)))(W, X),
    "jvp": lambda f: jax.jvp(f, (W, X), (X, W)),
}


def make_op(hint: Any) -> Any:
    def apply(function, x):
        return function(x)

    apply.__annotations__ = {"function": hint, "x": jax.Array, "return": jax.Array}
    return custom_op(apply, autograd="derive")


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_its_leaves_are_inputs_of_every_transformation(make: Any, hint: str) -> None:
    op = make_op(HINTS[hint])
    for run in RUNS.values():
        found, due = run(lambda w, x: op(make(w), x)), run(jnp.multiply)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, due)


def test_a_layer_is_an_argument_of_the_transformed_function() -> None:
    op = make_op(Callable)
    slope = jax.jit(jax.grad(lambda layer: op(layer, X).sum()))(Layer(W))
    np.testing.assert_allclose(slope.weight, X)


@pytest.mark.parametrize("hint", [*HINTS.values(), Hashed], ids=[*HINTS, "its class"])
@pytest.mark.parametrize("tensors", [False, True], ids=["arrays", "tensors"])
def test_a_leaf_that_changes_between_two_calls_is_noticed(hint: Any, tensors: bool) -> None:
    op, layer = make_op(hint), Hashed(2.0)
    x = oplib.Tensor.from_array(X) if tensors else X
    for weight in (2.0, 3.0, 2, W, 2 * W, 3.0):
        layer.weight = weight
        for _ in range(2):
            np.testing.assert_allclose(np.asarray(op(layer, x)), weight * X, rtol=1e-6)


def test_a_leaf_in_a_tuple_of_layers_is_noticed_too() -> None:
    def apply(layers: tuple[Callable[..., Any], ...], x: jax.Array) -> jax.Array:
        for layer in layers:
            x = layer(x)
        return x

    op, layers = custom_op(apply), (Hashed(2.0), Hashed(3.0))
    np.testing.assert_allclose(op(layers, X), 6 * X, rtol=1e-6)
    layers[1].weight = 5.0
    np.testing.assert_allclose(op(layers, X), 10 * X, rtol=1e-6)


def test_a_formula_gives_the_gradient_as_such_a_tree() -> None:
    @custom_op
    def apply(function: Callable[..., Any], x: jax.Array) -> jax.Array:
        return function(x)

    def backward(ctx: Any, grad: Any) -> Any:
        weight, x = ctx.saved_tensors
        return Layer(7 * grad * x), 7 * grad * weight

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0].weight, inputs[1])

    apply.register_autograd(backward, setup_context=save)
    layer, x = jax.jit(jax.grad(lambda layer, x: apply(layer, x).sum(), (0, 1)))(Layer(W), X)
    np.testing.assert_allclose(layer.weight, 7 * X, rtol=1e-6)
    np.testing.assert_allclose(x, 7 * W, rtol=1e-6)


@pytest.mark.parametrize("leaf", [2.0, jnp.array(2.0)], ids=["number", "array"])
@pytest.mark.parametrize("make", [*MAKERS[1:], lambda w: (Hashed(w),)])
def test_it_is_refused_by_keyword_only_where_its_leaves_would_be_frozen(make: Any, leaf: Any) -> None:
    def apply(x: jax.Array, *, function: Any) -> jax.Array:
        return x

    op = custom_op(apply)
    for run in (lambda w: op(X, function=make(w)), jax.jit(lambda w: op(X, function=make(w)))):
        with pytest.raises(ArgumentError, match="'function' is a pytree, and is given by keyword only"):
            run(leaf)
    assert op(X, function=jnp.sin).shape == X.shape


def test_one_that_is_compared_by_value_stays_static_by_keyword_only() -> None:
    def apply(x: jax.Array, *, function: Any) -> jax.Array:
        return function(x)

    op = custom_op(apply)
    for number in (2.0, 3.0):
        assert op(oplib.ones(1), function=Layer(number)).tolist() == [number]
    with pytest.raises(ArgumentError, match=r"Got Layer\. Keyword-only arguments are static"):
        op(X, function=Layer(W))
