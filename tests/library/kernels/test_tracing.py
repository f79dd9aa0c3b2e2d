"""The context of kernels and rules: an error that passes through names the kernel or rule."""

from __future__ import annotations

import builtins
import contextlib
import functools
import re
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import backward
from oplib.errors import TracingError
from oplib.library import custom_op
from oplib.tensor import Tensor
from oplib.torch_names import OF_ARRAYS

X = jnp.ones(2)
DONE = ""


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


def multiply(x: np.ndarray) -> np.ndarray:
    return x @ np.ones(4)


def multiply_in_blocks(x: np.ndarray) -> np.ndarray:
    with contextlib.nullcontext():
        try:
            return x @ np.ones(4)
        finally:
            len(DONE)


def multiply_below(x: np.ndarray) -> np.ndarray:
    return multiply(x)


def take(x: np.ndarray) -> np.ndarray:
    return x[7]


def reshape(x: np.ndarray) -> np.ndarray:
    return x.reshape(7)


def join(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, np.ones((2, 2))])


def write(x: np.ndarray) -> np.ndarray:
    x += 1
    return x


MISTAKES = {
    multiply: ("ValueError", "return x @ np.ones(4)"),
    multiply_in_blocks: ("ValueError", "return x @ np.ones(4)"),
    multiply_below: ("ValueError", "in multiply: return x @ np.ones(4)"),
    take: ("IndexError", "return x[7]"),
    reshape: ("ValueError", "return x.reshape(7)"),
    join: ("ValueError", "return np.concatenate"),
    write: ("ValueError", "x += 1"),  # its cure names mutates_args
}


@pytest.mark.parametrize("kernel", MISTAKES)
def test_a_mistake_that_numpy_finds_in_c_has_the_users_line(kernel):
    name, line = MISTAKES[kernel]
    with pytest.raises(getattr(builtins, name)) as caught:
        custom_op("trc::f", kernel)(X)
    assert isinstance(caught.value, oplib.errors.ArgumentError)
    pattern = (
        rf"^trc::f: the kernel fails at .*test_tracing.py:\d+, .*{re.escape(line)}.* Got x f32\[2\]; {name}: "
    )
    assert re.search(pattern, str(caught.value))
    assert type(caught.value.__cause__).__module__ in {"builtins", "numpy"}


def raise_plainly(x):
    raise ValueError("mine")


def raise_in_blocks(x):
    with contextlib.nullcontext():
        try:
            raise ValueError("mine")
        finally:
            len(DONE)


def raise_again(x):
    try:
        raise_plainly(x)
    except ValueError:
        raise


def raise_another(x):
    try:
        x @ np.ones(9)
    except ValueError as error:
        raise ValueError("mine") from error


def check(x):
    if x.sum() > 0:
        raise_plainly(x)


@pytest.mark.parametrize("body", [raise_plainly, raise_in_blocks, raise_again, raise_another, check])
def test_what_a_kernel_on_numpy_arrays_raises_itself_stays_as_it_is(body):
    def kernel(x: np.ndarray) -> np.ndarray:
        return body(x)

    with pytest.raises(ValueError, match="mine") as caught:
        custom_op("trc::f", kernel)(X)
    assert type(caught.value) is ValueError
    assert "Raised in the kernel of trc::f." in caught.value.__notes__


SPELLINGS = {
    "unsqueeze": "Use jax.numpy.expand_dims(x, dim), or annotate oplib.Tensor.",
    "view_as": "Use x.reshape(shape), or annotate oplib.Tensor.",
    "add_": "Arrays have no in-place methods: use what x + y or x.at[index].set(y) returns,",
    "detach": "Use jax.lax.stop_gradient(x),",
    "float": "Use x.astype(dtype),",
    "exp": "Use jax.numpy.exp(x),",
    "softmax": "Use jax.nn.softmax(x),",
    "requires_grad": "Register a formula, register_autograd,",
    "nothing": "Use functions of jax.numpy,",
}


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("compiled", [True, False])
def test_an_attribute_that_arrays_lack_is_spelled_in_jax(name, compiled):
    def kernel(x: jax.Array) -> jax.Array:
        return getattr(x, name)

    with pytest.raises(AttributeError) as caught:
        custom_op("trc::f", kernel, compile=compiled)(X)
    text = str(caught.value)
    assert text.startswith("trc::f: the kernel fails at ")
    assert f"Got x f32[2]; a jax.Array has no '{name}'. {SPELLINGS[name]}" in text
    assert len(text.replace(__file__, "")) < 400


def test_an_attribute_that_arrays_lack_is_spelled_in_formulas_and_on_the_host():
    def kernel(x: np.ndarray) -> np.ndarray:
        return x.unsqueeze(0)

    with pytest.raises(AttributeError, match=r"a numpy\.ndarray has no 'unsqueeze'\. Use numpy\.expand_dims"):
        custom_op("trc::f", kernel)(X)
    op = custom_op("trc::g", double)
    op.register_autograd(lambda ctx, grad: grad.mul_(2))
    with pytest.raises(AttributeError, match=r"trc::g: the backward formula fails at .* has no 'mul_'"):
        op(Tensor.from_array(X, requires_grad=True)).sum().backward()


def test_each_spelling_exists_and_is_needed():
    for name, cure in OF_ARRAYS.items():
        assert name == "at" or not hasattr(X, name)
        for path in re.findall(r"jax(?:\.\w+)+", cure):
            functools.reduce(getattr, path.split(".")[1:], jax)
        for attribute in re.findall(r"\bx\.(\w+)", cure):
            assert hasattr(X, attribute)


def test_an_attribute_that_something_else_lacks_stays_as_it_is():
    def kernel(x: np.ndarray) -> np.ndarray:
        return types.SimpleNamespace().missing

    with pytest.raises(AttributeError, match="SimpleNamespace") as caught:
        custom_op("trc::f", kernel)(X)
    assert type(caught.value) is AttributeError


@pytest.mark.parametrize(
    ("habit", "cure"),
    [
        (lambda x: x.view(2, 1), "Use x.reshape(shape)"),
        (lambda x: x.view(-1), "Use x.reshape(shape)"),
        (lambda x: x.sum(dim=0), "Write axis= and keepdims="),
        (lambda x: x.sum(0, keepdim=True), "Write axis= and keepdims="),
    ],
)
def test_an_argument_of_torch_in_a_kernel_on_arrays_has_its_own_cure(habit, cure):
    with pytest.raises(
        oplib.errors.ArgumentError, match=rf"^trc::f: the kernel fails at .* {re.escape(cure)}"
    ):
        custom_op("trc::f", habit, schema="(Tensor x) -> Tensor", compile=True)(X)


def test_a_numpy_formula_of_a_host_op_is_told_to_annotate_its_gradients():
    @custom_op("tracing::host_sine")
    def sine(x: np.ndarray) -> np.ndarray:
        return np.sin(x)

    sine.register_fake(lambda x: x)
    sine.register_autograd(lambda ctx, g: g * np.cos(ctx.saved_tensors[0]), setup_context=_save)
    text = r"Annotate its gradients `numpy\.ndarray`, so that it runs on the host, or use jax\.numpy"
    with pytest.raises(TracingError, match=text) as caught:
        sine(oplib.ones(2, requires_grad=True)).sum().backward()
    assert len(str(caught.value).partition(" The forward call")[0]) <= 400 + len(__file__)


def _save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
