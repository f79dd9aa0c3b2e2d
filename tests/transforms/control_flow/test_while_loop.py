"""``oplib.while_loop``: a loop whose length a Tensor decides."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import forward_ad
from oplib.errors import ArgumentTypeError, AutogradError, ResultError, TracingError

pytestmark = pytest.mark.spec("J.15")

ONE = oplib.tensor(1.0)


def double(x):
    return x * 2


def test_it_goes_on_as_long_as_the_condition_holds():
    carry = oplib.while_loop(lambda c: c["x"].sum() < 100, lambda c: {"x": c["x"] * 2}, {"x": oplib.ones(3)})
    assert carry["x"].tolist() == [64.0] * 3


def test_it_may_not_run_at_all():
    assert oplib.while_loop(lambda x: x > 5, double, ONE).item() == 1.0


def test_both_functions_may_capture_tensors():
    limit, factor = oplib.tensor(50.0), oplib.tensor(3.0)

    def run():
        return oplib.while_loop(lambda x: x < limit, lambda x: x * factor, ONE).item()

    assert run() == 81.0
    limit.mul_(0.1)
    assert run() == 9.0


def test_tangents_are_those_of_the_turns():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(oplib.tensor(1.0), oplib.tensor(1.0))
        w = forward_ad.make_dual(oplib.tensor(2.0), oplib.tensor(1.0))
        found = oplib.while_loop(lambda x: x < 8, lambda x: x * w, x)
        assert forward_ad.unpack_dual(found).tangent.item() == 8 + 3 * 4  # of x * w**3


def test_a_backward_raises_only_if_it_reaches_the_loop():
    x = oplib.tensor([1.0], requires_grad=True)
    result = oplib.while_loop(lambda x: x.sum() < 10, double, x)
    (result.detach() * x).sum().backward()
    assert x.grad.tolist() == [16.0]
    with pytest.raises(AutogradError, match=r"while_loop: it has no backward. .* Use oplib.scan"):
        result.sum().backward()


def test_a_captured_tensor_that_requires_grad_counts_too():
    w = oplib.tensor(2.0, requires_grad=True)
    result = oplib.while_loop(lambda x: x < 10, lambda x: x * w, ONE)
    with pytest.raises(AutogradError, match="while_loop: it has no backward"):
        result.backward()
    with oplib.no_grad():
        assert not oplib.while_loop(lambda x: x < 10, lambda x: x * w, ONE).requires_grad


def test_it_works_inside_jit_and_vmap():
    def run(array):
        return oplib.while_loop(lambda x: x < 10, double, oplib.Tensor.from_array(array)).array

    assert jax.jit(run)(jnp.asarray(3.0)) == 12.0
    assert jax.vmap(run)(jnp.asarray([1.0, 3.0])).tolist() == [16.0, 12.0]
    assert oplib.vmap(lambda x: oplib.while_loop(lambda x: x < 10, double, x))(
        oplib.tensor([1.0, 3.0])
    ).tolist() == [16.0, 12.0]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: oplib.while_loop(1, double, ONE),
            ArgumentTypeError,
            "while_loop: 'cond_fn' cannot be called",
        ),
        (
            lambda: oplib.while_loop(double, 1, ONE),
            ArgumentTypeError,
            "while_loop: 'body_fn' cannot be called",
        ),
        (
            lambda: oplib.while_loop(double, double, 1.0),
            ArgumentTypeError,
            "'init' holds something that is no Tensor",
        ),
        (
            lambda: oplib.while_loop(double, double, oplib.ones(2)),
            ResultError,
            r"no truth value. Got \[f32\[2\]\]",
        ),
        (
            lambda: oplib.while_loop(lambda x: x < 2, lambda x: (x,), ONE),
            ResultError,
            r"Got the structure \(Tensor,\)",
        ),
        (
            lambda: oplib.while_loop(lambda x: x < 2, lambda x: x > 1, ONE),
            ResultError,
            r"Got bool\[\] for leaf 0",
        ),
        (lambda: oplib.while_loop(lambda x: bool(x < 2), double, ONE), TracingError, "has no values yet"),
        (lambda: oplib.while_loop(lambda x: True, double, ONE), ArgumentTypeError, "Got True, of type bool"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()
