"""``oplib.cond``: the branch that a Tensor chooses, with its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad, grad
from oplib.errors import ArgumentTypeError, ResultError, TracingError

from .bodies import Weights, assert_close, differentiate

pytestmark = pytest.mark.spec("J.15")


@pytest.fixture
def at(with_64_bits):
    return Weights()


def make_branches(at):
    return (lambda h: ((h @ at.w).tanh(), h.detach() * at.b)), (lambda h: (h * at.b, h * h))


@pytest.mark.parametrize("pred", [True, False])
def test_values_and_two_derivatives_are_those_of_the_branch(pred, at):
    yes, no = make_branches(at)
    found = oplib.cond(oplib.tensor(pred), yes, no, at.init)
    expected = (yes if pred else no)(at.init)
    assert_close(found, expected)
    assert_close(differentiate(found, at.inputs[:3]), differentiate(expected, at.inputs[:3]))


@pytest.mark.parametrize("pred", [True, 2, 0.5, np.bool_(True), jnp.asarray(1), oplib.tensor([[True]])])
def test_what_counts_as_true(pred):
    assert oplib.cond(pred, lambda: oplib.tensor(1), lambda: oplib.tensor(2)).item() == 1


def test_what_neither_branch_differentiates_requires_no_grad(at):
    yes, no = (lambda h: (h.detach(), h)), (lambda h: (h.detach() * 2, h.detach()))
    first, second = oplib.cond(True, yes, no, at.init)
    assert (first.requires_grad, second.requires_grad) == (False, True)


def test_its_value_is_not_read_under_jit(at):
    w, init = at.w.detach().array, at.init.detach().array

    def run(w, h):
        w, h = oplib.Tensor.from_array(w, requires_grad=True), oplib.Tensor.from_array(h)
        result = oplib.cond(h.sum() > 0, lambda h: h @ w, lambda h: h * w[0], h)
        return grad(result.sum(), w)[0].array

    for h in (init, -init):
        np.testing.assert_allclose(jax.jit(run)(w, h), run(w, h))


def test_under_vmap_each_example_has_its_branch():
    found = oplib.vmap(lambda h: oplib.cond(h.sum() > 0, lambda h: h * 2, lambda h: -h, h))(
        oplib.tensor([[1.0], [-3.0]])
    )
    assert found.tolist() == [[2.0], [3.0]]


def test_tangents_go_through_operands_and_captured_tensors(at):
    with forward_ad.dual_level():
        h, w = (forward_ad.make_dual(one, oplib.ones_like(one)) for one in (at.init, at.w))
        found = oplib.cond(True, lambda h: h @ w, lambda h: h, h)
        expected = h @ w
        assert_close(*([forward_ad.unpack_dual(one).tangent] for one in (found, expected)))


def test_functions_of_the_user_keep_their_rule_in_forward_mode():
    class Triple(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 30

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 300

    with forward_ad.dual_level():
        x = forward_ad.make_dual(oplib.ones(1), oplib.ones(1))
        result = oplib.cond(True, Triple.apply, lambda x: x, x)
        assert forward_ad.unpack_dual(result).tangent.tolist() == [30.0]


X = oplib.ones(3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: oplib.cond(X, lambda: X, lambda: X),
            ArgumentTypeError,
            r"'pred' is not one truth value. Got f32\[3\]",
        ),
        (lambda: oplib.cond("yes", lambda: X, lambda: X), ArgumentTypeError, "Got 'yes', of type str"),
        (lambda: oplib.cond(True, None, lambda: X), ArgumentTypeError, "cond: 'true_fn' cannot be called"),
        (lambda: oplib.cond(True, lambda: X, 3), ArgumentTypeError, "cond: 'false_fn' cannot be called"),
        (
            lambda: oplib.cond(True, abs, abs, 3),
            ArgumentTypeError,
            "an operand holds something that is no Tensor",
        ),
        (
            lambda: oplib.cond(True, lambda: X, lambda: (X, X)),
            ResultError,
            r"Got the structure \(Tensor, Tensor\)",
        ),
        (
            lambda: oplib.cond(True, lambda: X, lambda: None),
            ResultError,
            "Got the structure None, expected Tensor",
        ),
        (
            lambda: oplib.cond(True, lambda: X, lambda: X.sum()),
            ResultError,
            r"Got f32\[\] for leaf 0, expected f32\[3\]",
        ),
        (lambda: oplib.cond(True, lambda: X, lambda: X.int()), ResultError, r"Got i32\[3\] for leaf 0"),
        (
            lambda: oplib.cond(True, lambda: X.zero_(), lambda: X),
            TracingError,
            "a traced value would be stored",
        ),
        (
            lambda: oplib.cond(True, lambda: X * X.max().item(), lambda: X),
            TracingError,
            "a traced tensor has no values",
        ),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.spec("J.6")
@pytest.mark.parametrize("wrap", [lambda run: run, oplib.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", ["cond", "scan"])
def test_a_backward_inside_that_reaches_an_argument_raises(wrap, name):
    def square(x):
        (x * x).sum().backward()
        return x * 1

    def run(x):
        if name == "cond":
            return oplib.cond(x.sum() > 0, square, square, x)
        return oplib.scan(lambda carry, _: (square(carry), None), x, length=2)[0]

    x = oplib.ones(2, requires_grad=True)
    with pytest.raises(
        TracingError, match=rf"{name}: '.*f.*': .* reaches an argument.* Take the gradient with"
    ):
        wrap(run)(x)
    assert x.grad is None


@pytest.mark.spec("J.6")
def test_a_gradient_inside_by_an_argument_is_returned():
    def square(x):
        return grad((x * x * x).sum(), x, create_graph=True)[0]

    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    result = oplib.cond(x.sum() > 0, square, square, x)
    assert result.tolist() == square(x).tolist()
    assert grad(result.sum(), x)[0].tolist() == grad(square(x).sum(), x)[0].tolist()
