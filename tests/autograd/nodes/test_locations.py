"""The line of the user's code that a node comes from, and errors that name it."""

import sys
import weakref

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.graph import are_locations_recorded, node_location, record_locations
from oplib.config import config
from oplib.errors import AutogradError, MissingRuleError, SavedTensorError
from tests.autograd.functions import Double


@pytest.fixture
def x():
    return oplib.tensor([2.0], requires_grad=True)


def line():
    return sys._getframe(1).f_lineno


def where(tensor):
    code, number = node_location(tensor.grad_fn)
    return code.co_name, number


def test_every_kind_of_node_remembers_its_line(forget_ops, x):
    @oplib.custom_op("test_locations::compiled")
    def compiled(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    @oplib.custom_op("test_locations::eager")
    def eager(x: oplib.Tensor) -> oplib.Tensor:
        return x * 2

    compiled.register_autograd("derive")
    eager.register_autograd(lambda ctx, grad: grad * 2)
    with record_locations(True):
        for _ in range(2):  # the complete path, then the fast path
            results = [
                (x * x, line()),
                (x.sum(), line()),
                (compiled(x), line()),
                (eager(x), line()),
                (Double.apply(x), line()),
                ((x * 1).add_(1), line()),
            ]
    here = test_every_kind_of_node_remembers_its_line.__name__
    assert [where(result) for result, _ in results] == [(here, number) for _, number in results]


def test_views_and_writes_through_them_remember_their_lines(x):
    with record_locations():
        y = x * 1
        view, first = y[0:1], line()
        last, second = view[0], line()
        assert (where(view)[1], where(last)[1]) == (first, second)
        _, third = view.mul_(2), line()
    assert [where(tensor)[1] for tensor in (y, view, last)] == [third] * 3


def test_nodes_of_a_recorded_backward_belong_to_the_line_of_the_forward(x):
    with record_locations():
        y, number = x**3, line()
        (first,) = oplib.autograd.grad(y, x, create_graph=True)
    assert where(first)[1] == number


def test_what_a_users_backward_records_belongs_to_its_own_line(x):
    lines = []

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            lines.append(line() + 1)
            return grad * 2 * ctx.saved_tensors[0]

    with record_locations():
        (first,) = oplib.autograd.grad(Square.apply(x), x, create_graph=True)
    assert where(first) == ("backward", lines[0])


def test_it_is_on_by_default_and_a_call_and_a_context_turn_it_off(x):
    y, number = x * 2, line()
    assert where(y)[1] == number
    with record_locations(False):
        assert node_location((x * 2).grad_fn) is None
    assert are_locations_recorded()
    record_locations(False)
    assert not are_locations_recorded()
    record_locations(True)


def test_the_setting_turns_it_off_in_all_threads(x):
    config.record_lines = False
    try:
        with record_locations(True):
            assert node_location((x * 2).grad_fn) is None
            assert node_location(Double.apply(x).grad_fn) is None
    finally:
        config.record_lines = True


def test_a_node_keeps_code_and_no_frame(x):
    def call():
        held = type("Held", (), {})()
        return weakref.ref(held), x * 2

    held, y = call()
    assert held() is None
    assert y.grad_fn._location[0] is call.__code__


def test_a_call_of_several_lines_belongs_to_a_line_of_the_call(x):
    first = line() + 1
    y = oplib.mul(
        x,
        x,
    )
    assert where(y)[1] == first


# Errors


def test_a_second_backward_names_node_op_and_line(x):
    with record_locations():
        y = x * x
    y.backward()
    with pytest.raises(SavedTensorError, match=r"(?s)a second time.*MulBackward0.*y = x \* x") as caught:
        y.backward()
    assert "while MulBackward0 of oplib::mul.Tensor was running" in caught.value.__notes__[0]
    assert f"{__file__}:" in str(caught.value)


def test_a_write_in_place_names_node_and_line(x):
    with record_locations():
        b = x * 1
        y = b.exp() * b
    b.detach().mul_(2)
    with pytest.raises(SavedTensorError, match=r"modified by an inplace operation.*y = b\.exp\(\) \* b"):
        y.backward()


def test_a_missing_formula_names_op_and_line(forget_ops, x):
    @oplib.custom_op("test_locations::opaque")
    def opaque(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    with record_locations():
        y = opaque(x)
    with pytest.raises(MissingRuleError, match=r"test_locations::opaque.*y = opaque\(x\)"):
        y.backward()


def test_a_gradient_of_the_wrong_shape_names_node_and_line(x):
    class Wrong(Double):
        @staticmethod
        def backward(ctx, grad):
            return oplib.ones(3)

    with record_locations():
        y = Wrong.apply(oplib.stack([x, x]))
    with pytest.raises(AutogradError, match=r"WrongBackward returned an invalid gradient.*Wrong\.apply\("):
        y.sum().backward()


def test_an_error_of_a_user_stays_as_it_is_and_has_the_line_in_a_note(x):
    error = ValueError("mine")

    class Fail(Double):
        @staticmethod
        def backward(ctx, grad):
            raise error

    with record_locations():
        y = Fail.apply(x)
    with pytest.raises(ValueError, match="mine") as caught:
        y.backward()
    assert caught.value is error
    assert str(error) == "mine"
    assert any("y = Fail.apply(x)" in note for note in error.__notes__)


def test_a_nested_run_tells_the_line_once(x):
    class Nest(Double):
        @staticmethod
        def backward(ctx, grad):
            ctx.inner.backward()

    with record_locations():
        inner = x * x
        y = Nest.apply(x)
    y.grad_fn.inner = inner
    inner.backward()
    with pytest.raises(SavedTensorError) as caught:
        y.backward()
    assert str(caught.value).count("inner = x * x") == 1
    assert "y = Nest.apply(x)" in str(caught.value)
