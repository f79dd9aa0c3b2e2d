"""The state after a run of the engine that fails."""

import pytest

import oplib
from oplib.autograd import Variable
from oplib.autograd.engine.engine import current_graph_task_id
from oplib.errors import SavedTensorError
from oplib.modes import modes
from tests.autograd.functions import Probe
from tests.threads import run_in_threads

engine = Variable._execution_engine


@pytest.mark.spec("E.6", "D.21")
def test_a_failing_run_frees_what_has_run_and_leaves_the_rest_usable():
    def fail():
        raise ZeroDivisionError

    x = oplib.tensor(2.0, requires_grad=True)
    below = x * x
    above = Probe.apply(below, fail)
    top = above * above
    with pytest.raises(ZeroDivisionError):
        top.backward()
    with pytest.raises(SavedTensorError, match="second time"):
        top.backward()
    below.backward()
    assert x.grad.item() == 4.0


@pytest.mark.spec("004.5")
def test_an_exception_arrives_as_the_same_object_and_tells_the_node():
    error = KeyError("mine")

    def fail():
        raise error

    x = oplib.tensor(1.0, requires_grad=True)
    with pytest.raises(KeyError) as caught:
        Probe.apply(x, fail).backward()
    assert caught.value is error
    first, second = caught.value.__notes__
    assert first == "Raised in the backward pass, while ProbeBackward was running."
    assert "test_an_exception_arrives_as_the_same_object_and_tells_the_node" in second  # the forward call


@pytest.mark.spec("004.5")
def test_a_keyboard_interrupt_passes_and_state_is_restored():
    def interrupt():
        raise KeyboardInterrupt

    x = oplib.tensor(1.0, requires_grad=True)
    with pytest.raises(KeyboardInterrupt):
        Probe.apply(x, interrupt).backward()
    assert current_graph_task_id() == -1
    assert engine.is_checkpoint_valid()
    assert modes.grad_enabled


@pytest.mark.spec("E.8")
def test_an_error_of_an_inner_run_can_be_caught_outside_it():
    def fail():
        raise ValueError("inner")

    def attempt():
        with oplib.enable_grad(), pytest.raises(ValueError, match="inner"):
            Probe.apply(oplib.tensor(1.0, requires_grad=True), fail).backward()

    x = oplib.tensor(1.0, requires_grad=True)
    Probe.apply(x, attempt).backward()
    assert x.grad.item() == 1.0


@pytest.mark.spec("004.5", "004.8")
def test_each_thread_gets_the_error_of_its_own_run():
    def work(number):
        def fail():
            raise ValueError(number)

        with pytest.raises(ValueError) as caught:
            Probe.apply(oplib.tensor(1.0, requires_grad=True), fail).backward()
        return caught.value.args

    assert run_in_threads(work) == [(0,), (1,), (2,), (3,)]
