"""Operators with an array on the left and a Tensor on the right."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor, tensor
from oplib.errors import AutogradError

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITWISE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
LEFT, RIGHT = [2.0, 3.0], [1.5, 3.0]


@pytest.mark.parametrize("run", [*ARITHMETIC, *COMPARISONS, operator.floordiv], ids=lambda run: run.__name__)
def test_an_operator_is_the_tensors(run: Callable[[Any, Any], Any]) -> None:
    result = run(jnp.array(LEFT), tensor(RIGHT, requires_grad=True))
    assert isinstance(result, Tensor)
    np.testing.assert_allclose(result.detach(), run(np.array(LEFT, np.float32), np.array(RIGHT, np.float32)))
    assert type(run(jnp.array(LEFT), tensor(RIGHT))) is Tensor  # where no gradient is at stake too


@pytest.mark.parametrize("run", BITWISE, ids=lambda run: run.__name__)
def test_one_on_bits_is_too(run: Callable[[Any, Any], Any]) -> None:
    result = run(jnp.array([5, 6]), tensor([1, 2]))
    assert isinstance(result, Tensor)
    assert result.tolist() == run(np.array([5, 6]), np.array([1, 2])).tolist()


@pytest.mark.parametrize("run", [operator.sub, operator.truediv, operator.pow], ids=lambda run: run.__name__)
def test_the_gradient_flows_to_the_tensor(run: Callable[[Any, Any], Any]) -> None:
    x = tensor(RIGHT, requires_grad=True)
    run(jnp.array(LEFT), x).sum().backward()
    due = jax.grad(lambda value: run(jnp.array(LEFT), value).sum())(jnp.array(RIGHT))
    np.testing.assert_allclose(x.grad, due, rtol=1e-6)


def test_a_matrix_on_the_left_multiplies_a_tensor() -> None:
    x = tensor(RIGHT, requires_grad=True)
    matrix = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    (matrix @ x).sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_it_is_the_tensors_under_a_trace() -> None:
    @jax.jit
    def both(array: jax.Array, x: Tensor) -> tuple[Any, Any]:
        return array * x, array < x

    product, comparison = both(jnp.array(LEFT), tensor(RIGHT))
    assert isinstance(product, Tensor)
    assert isinstance(comparison, Tensor)
    assert product.tolist() == [3.0, 9.0]
    assert comparison.tolist() == [False, False]


def test_a_tensor_from_outside_of_a_trace_is_asked_too() -> None:
    x = tensor(RIGHT)
    assert jax.jit(lambda array: (array + x).array)(jnp.array(LEFT)).tolist() == [3.5, 6.0]


def test_functions_of_jax_are_still_refused() -> None:
    x = tensor(RIGHT, requires_grad=True)
    with pytest.raises(AutogradError, match=r"Can't call a JAX function on Tensor that requires grad"):
        jnp.multiply(jnp.array(LEFT), x)
    with oplib.no_grad():
        assert isinstance(jnp.multiply(jnp.array(LEFT), x), jax.Array)
