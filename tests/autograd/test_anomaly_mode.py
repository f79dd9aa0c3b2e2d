"""The forward call behind an error of a backward pass, and NaNs."""

import warnings

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function, detect_anomaly, set_detect_anomaly
from oplib.autograd.anomaly_mode import is_anomaly_check_nan_enabled, is_anomaly_enabled
from oplib.errors import AutogradError
from oplib.modes import modes
from tests.threads import run_in_thread


class Fail(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("boom")


@pytest.fixture
def zero():
    return oplib.tensor([0.0], requires_grad=True)


@pytest.mark.spec("004.6", "000.5")
def test_a_node_keeps_the_stack_of_its_call(zero):
    with set_detect_anomaly(True):
        y = zero * zero
        z = Fail.apply(zero)
    for node in (y.grad_fn, z.grad_fn):
        stack = node.metadata["traceback_"]
        assert all(isinstance(entry, str) for entry in stack)
        assert "test_anomaly_mode.py" in stack[-1]
        assert "parent_" not in node.metadata
    assert "zero * zero" in y.grad_fn.metadata["traceback_"][-1]


@pytest.mark.spec("004.6", "000.5")
def test_a_node_that_a_backward_makes_keeps_the_node_that_ran():
    x = oplib.tensor([2.0], requires_grad=True)
    with set_detect_anomaly(True):
        y = x**3
        (first,) = oplib.autograd.grad(y, x, create_graph=True)
    assert first.grad_fn.metadata["parent_"] is y.grad_fn


@pytest.mark.spec("004.6")
def test_outside_of_the_mode_nodes_keep_nothing(zero):
    assert (zero * zero).grad_fn.metadata == {}


@pytest.mark.spec("004.6")
def test_an_error_tells_its_forward_call_in_itself_and_in_a_warning(zero):
    with set_detect_anomaly(True):
        y = Fail.apply(zero)
        with (
            pytest.warns(UserWarning, match=r"(?s)Error detected in FailBackward.*Fail\.apply\(zero\)"),
            pytest.raises(ValueError, match="boom") as caught,
        ):
            y.backward()
    notes = "\n".join(caught.value.__notes__)
    assert "while FailBackward was running" in notes
    assert "The forward call was at" in notes
    assert "y = Fail.apply(zero)" in notes


@pytest.mark.spec("004.6")
def test_an_error_that_is_on_its_way_is_not_replaced_where_warnings_are_errors(zero):
    with set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("error")
        y = Fail.apply(zero)
        with pytest.raises(ValueError, match="boom"):
            y.backward()


@pytest.mark.spec("004.6")
def test_an_error_of_a_node_from_before_says_that_nothing_is_known(zero):
    y = Fail.apply(zero)
    with (
        set_detect_anomaly(True),
        pytest.warns(UserWarning, match="No forward pass information available"),
        pytest.raises(ValueError, match="boom"),
    ):
        y.backward()


@pytest.mark.spec("004.6")
def test_the_calls_that_induced_a_node_are_told_too():
    x = oplib.tensor([0.0], requires_grad=True)
    with set_detect_anomaly(True, check_nan=False):
        y = x.sqrt()
        (first,) = oplib.autograd.grad(y, x, create_graph=True)
        first.grad_fn.register_prehook(lambda grads: 1 / 0)
        with (
            pytest.warns(UserWarning, match="(?s)induced by SqrtBackward0.*x.sqrt"),
            pytest.raises(ZeroDivisionError),
        ):
            first.backward()


@pytest.mark.spec("004.6")
def test_a_nan_is_an_error_that_names_function_output_and_line(zero):
    with set_detect_anomaly(True):
        y = (zero / zero).sum()
        with pytest.warns(UserWarning, match="DivBackward0"), pytest.raises(AutogradError) as caught:
            y.backward()
    assert "Function 'DivBackward0' returned nan values in its 1th output" in str(caught.value)
    assert "y = (zero / zero).sum()" in str(caught.value)


@pytest.mark.spec("004.6")
def test_nans_pass_where_they_are_not_checked(zero):
    with set_detect_anomaly(True, check_nan=False):
        (zero / zero).sum().backward()
    assert jnp.isnan(zero.grad.array).all()


def test_traced_gradients_are_not_looked_at():
    def step(value):
        x = oplib.Tensor.from_array(value, requires_grad=True)
        with set_detect_anomaly(True):
            return oplib.autograd.grad((x / x).sum(), x)[0].array

    assert jnp.isnan(jax.jit(step)(jnp.zeros(2))).all()


@pytest.mark.spec("004.6")
def test_the_mode_is_a_call_and_a_context_and_nests():
    set_detect_anomaly(True, False)
    assert (is_anomaly_enabled(), is_anomaly_check_nan_enabled()) == (True, False)
    with set_detect_anomaly(False):
        assert not is_anomaly_enabled()
    assert (is_anomaly_enabled(), is_anomaly_check_nan_enabled()) == (True, False)
    set_detect_anomaly(False)
    assert (is_anomaly_enabled(), is_anomaly_check_nan_enabled()) == (False, True)
    assert modes.state.watchers == 0


@pytest.mark.spec("004.6")
def test_detecting_in_a_block_warns_that_it_is_slow(zero):
    with pytest.warns(UserWarning, match="This mode will increase the runtime") as caught:
        context = detect_anomaly(check_nan=False)
    assert caught[0].filename == __file__
    with context:
        assert (is_anomaly_enabled(), is_anomaly_check_nan_enabled()) == (True, False)
    assert (is_anomaly_enabled(), is_anomaly_check_nan_enabled()) == (False, True)


def test_the_mode_is_the_threads_own():
    with set_detect_anomaly(True):
        assert not run_in_thread(is_anomaly_enabled)
