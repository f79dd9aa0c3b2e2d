"""View ops that users register: their results are views where the op only moves items."""

import jax
import numpy as np
import pytest

import oplib


def numbers(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def define(name, kernel):
    return oplib.custom_op(f"views::{name}", kernel, tags=(oplib.Tag.view,), autograd="derive")


def flip(x: jax.Array) -> jax.Array:
    return x[::-1]


def double(x: jax.Array) -> jax.Array:
    return x * 2


def test_a_registered_view_op_gives_a_view_that_is_written_with_its_gradient():
    op = define("flip", flip)
    x = oplib.tensor(numbers(3), requires_grad=True)
    y = x * 1
    view = op(y)
    assert view._is_view()
    view[0].mul_(5)
    (y * oplib.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([0.0, 1.0, 10.0], [1.0, 2.0, 15.0])


def test_a_result_that_is_computed_is_no_view_and_refuses_writes():
    view = define("double", double)(oplib.tensor(numbers(3)))
    assert view.tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(oplib.errors.AutogradError, match="views::double, and writing into it would not"):
        view.add_(1)
    assert view.tolist() == [0.0, 2.0, 4.0]


def test_a_schema_may_say_that_the_result_is_a_view():
    op = oplib.custom_op("views::turn", lambda x: x.T, schema="(Tensor(a) x) -> Tensor(a)", compile=True)
    x = oplib.tensor(numbers(2, 3))
    op(x)[0].add_(10)
    assert x.tolist() == [[10.0, 1.0, 2.0], [13.0, 4.0, 5.0]]


def test_a_view_that_repeats_items_refuses_writes():
    def twice(x: jax.Array) -> jax.Array:
        return x[np.array([0, 0])]

    view = define("twice", twice)(oplib.tensor(numbers(2)))
    with pytest.raises(oplib.errors.AutogradError, match="more than one element of the written-to tensor"):
        view.add_(1)


def test_views_in_the_array_world_are_arrays():
    op = define("flip_arrays", flip)
    assert isinstance(op(jax.numpy.ones(3)), jax.Array)
