"""Compilers that raise, or that return something else than a function of the same results."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import compiled_autograd
from oplib.autograd.compiled_autograd import enable
from oplib.errors import AutogradError


def two_segments(x, ran):
    y = x * 2
    y.register_hook(lambda g: ran.append("hook"))
    return y.exp().sum()


def wrong_number(function):
    return lambda *arrays: (*function(*arrays), jnp.zeros(()))


def wrong_shape(function):
    return lambda *arrays: tuple(jnp.zeros((7,)) for _ in function(*arrays))


def no_tuple(function):
    return lambda *arrays: 3


@pytest.mark.spec("002.17", "D.23")
@pytest.mark.parametrize(
    ("compiler", "text"),
    [
        (
            wrong_number,
            "compiler 'wrong_number' returned for CompiledAutograd0 a function with other results",
        ),
        (wrong_shape, r"compiler 'wrong_shape' returned for .* Got .*7.*, expected"),
        (no_tuple, "compiler 'no_tuple' returned for .* Got i"),
        (
            lambda function: None,
            "returned no callable to end_capture, which takes it as compiled_fn. Got NoneType",
        ),
    ],
    ids=["number", "shape", "type", "callable"],
)
def test_a_wrong_compiler_is_named_and_nothing_has_changed(compiler, text, x):
    ran = []
    loss = two_segments(x, ran)
    with pytest.raises(AutogradError, match=text), enable(compiler):
        loss.backward()
    assert not ran
    assert x.grad is None
    assert not compiled_autograd.in_compiled_autograd_region
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2.0, 4.0]), rtol=1e-5)


@pytest.mark.spec("002.17")
def test_an_error_of_a_compiler_for_a_later_segment_is_raised_with_its_name(x):
    ran, compiled = [], []

    def compiler(function):
        compiled.append(function)
        if len(compiled) == 2:
            raise KeyError("mine")
        return function

    loss = two_segments(x, ran)
    with pytest.raises(KeyError, match="mine") as caught, enable(compiler):
        loss.backward()
    assert "Raised by the compiler 'compiler' for CompiledAutograd1." in caught.value.__notes__
    assert len(ran) == 1


def raises_in_its_function(function):
    return lambda *arrays: {}["missing"]


def gives_a_name(function):
    return lambda *arrays: ("grad",)


@pytest.mark.spec("002.17")
@pytest.mark.parametrize(
    ("compiler", "kind", "text"),
    [(raises_in_its_function, KeyError, "missing"), (gives_a_name, AutogradError, "grad")],
    ids=["raises", "text"],
)
def test_a_compiled_function_that_fails_is_named_before_any_hook(compiler, kind, text, x):
    ran = []
    loss = two_segments(x, ran)
    with pytest.raises(kind, match=text) as caught, enable(compiler):
        loss.backward()
    told = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert compiler.__name__ in told
    assert not ran
    assert x.grad is None
    loss.backward()
    assert x.grad is not None


@pytest.mark.spec("002.17")
def test_a_function_that_gives_other_results_only_for_arrays_is_named_too(x):
    def two_faced(function):
        def run(*arrays):
            results = function(*arrays)
            is_traced = any(isinstance(array, jax.core.Tracer) for array in arrays)
            return results if is_traced else results[:-1]

        return run

    loss = (x * 2).exp().sum()
    text = r"compiler 'two_faced' returned for .* other results"
    with pytest.raises(AutogradError, match=text), enable(two_faced):
        loss.backward()
    assert x.grad is None
    loss.backward()
    assert x.grad is not None


@pytest.mark.spec("D.23")
@pytest.mark.parametrize(
    "compiler",
    [
        jax.jit,
        lambda function: function,
        lambda function: jax.jit(function).lower(*function.jaxpr.in_avals).compile(),
        lambda function: lambda *arrays: tuple(map(jnp.asarray, jax.jit(function)(*map(np.asarray, arrays)))),
    ],
    ids=["jit", "identity", "ahead of time", "on numpy"],
)
def test_compilers_of_all_kinds_serve(compiler, agree):
    def run(w, y, z):
        with enable(compiler):
            ((w * y).sin() @ z).sum().backward()

    agree(run)


@pytest.mark.spec("D.26")
def test_an_error_in_a_formula_while_it_is_captured_is_the_users_and_names_the_node(forget_ops, x):
    @oplib.custom_op("test_compilers::broken")
    def broken(a: jax.Array) -> jax.Array:
        return a * 2

    def backward(ctx, grad):
        raise KeyError("mine")

    broken.register_autograd(backward)
    ran = []
    x.register_hook(ran.append)
    with pytest.raises(KeyError, match="mine") as caught, enable():
        broken(x).sum().backward()
    assert "test_compilers::broken" in "".join(caught.value.__notes__)
    assert not ran
