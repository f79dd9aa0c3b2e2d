"""Zeros in the place of absent gradients."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.nodes.gradient_representation import ARRAYS


class Split(Function):
    """Its backward writes into the gradients that it receives."""

    @staticmethod
    def forward(ctx, x):
        return x * 2.0, x * 3.0

    @staticmethod
    def backward(ctx, first, second):
        return first.mul_(2.0) + second.add_(1.0)


def test_zeros_of_one_kind_are_made_once():
    due = jax.ShapeDtypeStruct((3,), jnp.float32)
    (first,), (second,) = ARRAYS.fill([None], [due]), ARRAYS.fill([None], [due])
    assert first is second
    assert first.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int32", "bool"])
def test_zeros_have_the_dtype_that_is_due(dtype):
    due = jax.ShapeDtypeStruct((2,), jnp.dtype(dtype))
    (zeros,) = ARRAYS.fill([None], [due])
    assert (zeros.dtype, zeros.committed) == (due.dtype, False)


def test_a_backward_that_writes_into_zeros_changes_no_others():
    for _ in range(3):
        x = oplib.tensor([1.0, 2.0], requires_grad=True)
        Split.apply(x)[0].sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]


def test_zeros_of_a_traced_pass_belong_to_the_trace():
    due = jax.ShapeDtypeStruct((2,), jnp.float32)
    text = str(jax.make_jaxpr(lambda: ARRAYS.fill([None], [due])[0])())
    ARRAYS.fill([None], [due])
    assert str(jax.make_jaxpr(lambda: ARRAYS.fill([None], [due])[0])()) == text


@pytest.mark.filterwarnings("ignore:Using backward")  # torch, of the cycle that it makes
def test_a_recorded_gradient_that_is_a_leaf_leads_back_to_it():
    for library in (pytest.importorskip("torch"), oplib):
        given, x = library.ones(2).requires_grad_(), library.ones(2).requires_grad_()
        x.backward(given, create_graph=True)
        assert (x.grad.requires_grad, x.grad.is_leaf, x.grad is given) == (True, False, False)
        (x.grad * 2).sum().backward()
        assert given.grad.tolist() == [2.0, 2.0]
