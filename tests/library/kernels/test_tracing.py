"""The context of kernels and rules: an error that passes through names the kernel or rule."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import backward
from oplib.library import custom_op
from oplib.tensor import Tensor

X = jnp.ones(2)


def fail(*args, **kwargs):
    raise KeyError("mine")


def kernel_on_arrays(x: jax.Array) -> jax.Array:
    return fail()


def kernel_on_host(x: np.ndarray) -> np.ndarray:
    return fail()


def kernel_on_tensors(x: Tensor) -> Tensor:
    return fail()


def double(x: jax.Array) -> jax.Array:
    return x * 2


@pytest.mark.parametrize("kernel", [kernel_on_arrays, kernel_on_host, kernel_on_tensors])
def test_an_error_of_a_kernel_keeps_its_type_and_names_the_op(kernel):
    with pytest.raises(KeyError, match="mine") as caught:
        custom_op("trc::f", kernel)(X)
    assert "Raised in the kernel of trc::f." in caught.value.__notes__


def test_an_error_of_a_formula_names_the_op():
    op = custom_op("trc::f", double)
    op.register_autograd(fail)
    y = op(Tensor.from_array(X, requires_grad=True))
    with pytest.raises(KeyError, match="mine") as caught:
        backward(y, Tensor.from_array(X))
    assert "Raised in the backward formula of trc::f." in caught.value.__notes__


def test_an_error_of_a_setup_names_the_op():
    op = custom_op("trc::f", double)
    op.register_autograd(lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: inputs[3])
    with pytest.raises(IndexError, match="index out of range") as caught:
        op(Tensor.from_array(X, requires_grad=True))
    assert "Raised in the setup_context of trc::f." in caught.value.__notes__


def test_an_error_that_names_the_op_itself_is_left_as_it_is():
    def branch(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    with pytest.raises(RuntimeError, match=r"^trc::f: the kernel needs the concrete value") as caught:
        custom_op("trc::f", branch)(X)
    assert not [note for note in getattr(caught.value, "__notes__", []) if note.startswith("Raised")]


@pytest.mark.parametrize("first", [False, True])
def test_a_compiled_kernel_does_not_depend_on_the_inference_mode_of_its_first_call(first):
    @custom_op
    def read(x: jax.Array) -> jax.Array:
        return x + oplib.is_inference_mode_enabled()

    for is_on in (first, not first):
        with oplib.inference_mode(is_on):
            assert read(X).tolist() == [1, 1]
