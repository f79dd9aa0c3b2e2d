"""The arguments and results of the backward of a user Function."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function, grad
from oplib.autograd.function import once_differentiable
from oplib.errors import AutogradError
from tests.autograd.functions import make_function
from tests.threads import run_in_thread


def test_missing_gradients_are_zeros(x):
    seen = []

    def backward(ctx, g, h):
        seen.append(h.tolist())
        return g

    first, _ = make_function(lambda ctx, a: (a * 2, a * 3), backward).apply(x)
    first.sum().backward()
    assert seen == [[0.0, 0.0]]


@pytest.mark.devices(2)
def test_missing_gradients_are_on_the_device_of_the_others():
    def backward(ctx, g, h):
        assert h.device == g.device
        return h + 1

    device = jax.devices()[1]
    x = oplib.Tensor.from_array(jax.device_put(jnp.ones(2), device), requires_grad=True)
    first, _ = make_function(lambda ctx, a: (a.sum(), a * 3), backward).apply(x)
    first.backward()
    assert x.grad.array.devices() == {device}


def test_missing_gradients_are_none_if_asked_for(x):
    seen = []

    def forward(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    def backward(ctx, g, h):
        seen.append(h)
        return g

    make_function(forward, backward).apply(x)[0].sum().backward()
    assert seen == [None]


def test_results_that_are_no_tensors_pass_and_get_none(x):
    seen = []

    def backward(ctx, *grads):
        seen.extend(grads)
        return grads[0]

    y, number, nothing = make_function(lambda ctx, a: (a * 2, 5, None), backward).apply(x)
    assert (number, nothing) == (5, None)
    y.sum().backward()
    assert seen[1:] == [None, None]


def test_integer_results_are_constants(x):
    y = make_function(lambda ctx, a: oplib.Tensor.from_array(a.array.astype(jnp.int32))).apply(x)
    assert not y.requires_grad
    assert y.grad_fn is None


def test_a_marked_output_is_a_constant(x):
    def forward(ctx, a):
        b = a * 3
        ctx.mark_non_differentiable(b)
        return a * 2, b

    seen = []

    def backward(ctx, g, h):
        seen.append(h.tolist())
        return g

    y, constant = make_function(forward, backward).apply(x)
    assert not constant.requires_grad
    y.sum().backward()
    assert seen == [[0.0, 0.0]]


def test_needs_input_grad_tells_each_argument(x):
    seen = []

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None

    make_function(lambda ctx, a, b, k: a * 2, backward).apply(x, oplib.tensor([1.0]), 3).sum().backward()
    assert seen == [(True, False, False)]


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_of_gradients_names_both(x, count):
    function = make_function(lambda ctx, a, b: a * b, lambda ctx, g: (g,) * count)
    with pytest.raises(AutogradError, match=rf"incorrect number of gradients. Got {count}, expected 2"):
        function.apply(x, x).sum().backward()


@pytest.mark.spec("E.4")
def test_further_nones_are_allowed(x):
    make_function(lambda ctx, a: a * 2, lambda ctx, g: (g, None, None)).apply(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_gradient_for_something_that_is_no_tensor_raises(x):
    function = make_function(lambda ctx, a, k: a * k, lambda ctx, g: (g, g))
    with pytest.raises(AutogradError, match="different than None at position 1"):
        function.apply(x, 2.0).sum().backward()


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("result", [3, [1.0], jnp.ones(2)])
def test_a_result_that_is_no_tensor_raises(x, result):
    function = make_function(lambda ctx, a: a * 2, lambda ctx, g: result)
    with pytest.raises(AutogradError, match=r"expected Variable or None \(a Tensor or None\)"):
        function.apply(x).sum().backward()


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_is_summed_to_the_shape_of_its_input(x, create_graph):
    function = make_function(lambda ctx, a: a * 2, lambda ctx, g: oplib.ones(4, 2))
    assert grad(function.apply(x).sum(), x, create_graph=create_graph)[0].tolist() == [4.0, 4.0]


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_is_cast_to_the_dtype_of_its_input(create_graph):
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    function = make_function(
        lambda ctx, a: a * 2, lambda ctx, g: oplib.Tensor.from_array(jnp.ones(2, jnp.float16))
    )
    assert grad(function.apply(x).sum(), x, create_graph=create_graph)[0].array.dtype == jnp.float32


@pytest.mark.spec("E.4")
@pytest.mark.parametrize("shape", [(7,), (1,)])
def test_a_gradient_of_another_shape_raises_and_names_the_function(x, shape):
    function = make_function(lambda ctx, a: a * 2, lambda ctx, g: oplib.ones(*shape))
    with pytest.raises(
        AutogradError, match=rf"MadeBackward returned an invalid gradient at index 0.*{shape[0]}\].*f32\[2\]"
    ):
        function.apply(x).sum().backward()


def test_a_complex_gradient_of_something_real_raises(x):
    function = make_function(
        lambda ctx, a: a * 2, lambda ctx, g: oplib.Tensor.from_array(jnp.ones(2, jnp.complex64))
    )
    with pytest.raises(AutogradError, match="lose the imaginary part"):
        function.apply(x).sum().backward()


def test_once_differentiable_raises_where_it_would_be_differentiated(x):
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not oplib.is_grad_enabled()
            (x,) = ctx.saved_tensors
            return g * x * 2

    assert grad(Once.apply(x).sum(), x)[0].tolist() == [2.0, 4.0]
    (first,) = grad(Once.apply(x).sum(), x, create_graph=True)
    assert first.tolist() == [2.0, 4.0]
    for differentiate in (lambda y: y.backward(), lambda y: grad(y, x)):
        with pytest.raises(AutogradError, match=r"OnceBackward.*@once_differentiable"):
            differentiate(first.sum())
    assert grad(first.sum(), x, allow_unused=True) == (None,)


def test_a_backward_may_run_its_own_node_again_and_then_another_thread_runs_it(x):
    calls = []

    def backward(ctx, g):
        calls.append(g)
        if len(calls) == 1:
            grad(y, x, retain_graph=True)
        return g * 2

    y = make_function(lambda ctx, a: a * 2, backward).apply(x).sum()
    y.backward(retain_graph=True)
    run_in_thread(y.backward)
    assert len(calls) == 3
    assert x.grad.tolist() == [4.0, 4.0]
