"""The context of kernels and rules: an error that passes through names the kernel or rule."""

from __future__ import annotations

import re

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


SIZES = {
    "zeros": lambda x, n: jnp.zeros(n) + x.sum(),
    "range": lambda x, n: [x := x + 1 for _ in range(n)][-1],
    "reshape": lambda x, n: x.reshape(n, -1).sum(0),
    "slice": lambda x, n: x[:n],
    "branch": lambda x, n: x if n > 1 else -x,
    "int": lambda x, n: x[int(n)],
    "arange": lambda x, n: jnp.arange(n) + x[0],
    "axis": lambda x, n: x.sum(axis=n),
    "loop": lambda x, n: jax.lax.fori_loop(0, 2, lambda i, y: y.at[:n].set(1.0), x),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("run", [lambda op: op, jax.jit, oplib.jit], ids=["eager", "jax.jit", "oplib.jit"])
def test_a_number_used_as_a_size_is_to_be_annotated_before_the_words_of_jax(run, size):
    op = custom_op("trc::f", SIZES[size], schema="(Tensor x, Tensor n) -> Tensor", compile=True)
    with pytest.raises(oplib.errors.TracingError) as caught:
        run(op)(oplib.ones(4), oplib.tensor(2))
    pattern = r"concrete value of argument 'n' .*\. Annotate `n: int`, which makes it static; or .* Got: "
    assert re.search(pattern, str(caught.value))
    assert len(str(caught.value).replace(__file__, "")) < 400


@pytest.mark.parametrize(("value", "kind"), [(True, "bool"), (1.5, "float"), ([1, 2], None)], ids=str)
def test_a_value_that_is_no_size_gets_its_own_cure(value, kind):
    op = custom_op(
        "trc::f", lambda x, n: x if n.sum() else -x, schema="(Tensor x, Tensor n) -> Tensor", compile=True
    )
    with pytest.raises(oplib.errors.TracingError) as caught:
        op(oplib.ones(4), oplib.tensor(value))
    assert (f"Annotate `n: {kind}`" if kind else "Use jax.numpy, jax.lax") in str(caught.value)
