"""Arguments and results of a registered class that accepts nothing but arrays in its fields."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Checked:
    a: jax.Array
    b: jax.Array

    def __post_init__(self) -> None:
        for field in (self.a, self.b):
            if not isinstance(field, (jax.Array, jax.ShapeDtypeStruct, oplib.Tensor)):
                raise TypeError(f"Checked: a field is no array. Got {field!r}.")


def multiply(pair: Checked) -> jax.Array:
    return pair.a * pair.b


def make_op(seen: list[Any]) -> Any:
    op = oplib.library.custom_op(multiply)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        seen.append(ctx.needs_input_grad)
        ctx.save_for_backward(inputs[0].a, inputs[0].b)

    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        return (Checked(g * b, g * a),)

    op.register_autograd(backward, setup_context=save)
    return op


def at(function: Any, b: Any = 3.0) -> Any:
    return lambda a: function(Checked(a, jnp.asarray(b)))


WAYS = {
    "grad": lambda f: jax.grad(f)(Checked(jnp.array(2.0), jnp.array(3.0))),
    "grad of a field": lambda f: jax.grad(at(f))(2.0),
    "jit of grad": lambda f: jax.jit(jax.grad(at(f)))(2.0),
    "jvp": lambda f: jax.jvp(at(f), (2.0,), (1.0,)),
    "hessian": lambda f: jax.hessian(lambda a: f(Checked(a, a)))(2.0),
    "vmap of grad": lambda f: jax.vmap(jax.grad(at(f)))(jnp.arange(3.0)),
}


@pytest.mark.parametrize("name", WAYS)
def test_an_op_with_a_formula_takes_a_class_that_checks_its_fields(name):
    way = WAYS[name]
    found, due = way(make_op([])), way(multiply)
    assert jax.tree.structure(found) == jax.tree.structure(due)
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(due), strict=True)
    assert all(got.tolist() == right.tolist() for got, right in pairs)


def test_the_flags_of_such_an_argument_are_a_tuple_of_one_per_leaf():
    seen: list[Any] = []
    jax.grad(at(make_op(seen)))(2.0)
    assert seen == [((True, False),)]


def test_such_an_argument_has_gradients_on_the_tape():
    a, b = oplib.tensor(2.0, requires_grad=True), oplib.tensor(3.0, requires_grad=True)
    (slope,) = oplib.autograd.grad(make_op([])(Checked(a, b)), a, create_graph=True)
    assert slope.item() == 3.0
    assert oplib.autograd.grad(slope, b)[0].item() == 1.0


def test_a_batching_rule_gets_a_tuple_of_one_axis_per_leaf():
    seen: list[Any] = []
    op = oplib.library.custom_op(multiply)

    @op.register_vmap
    def batch(info: Any, in_dims: Any, pair: Checked) -> Any:
        seen.append(in_dims)
        return pair.a * pair.b, 0

    assert jax.vmap(at(op))(jnp.arange(3.0)).tolist() == [0.0, 3.0, 6.0]
    assert seen[0] == ((0, None),)
