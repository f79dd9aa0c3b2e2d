"""Callbacks of a run of the engine."""

import pytest

import oplib
from oplib.autograd import Variable
from oplib.autograd.engine.engine import current_graph_task_id
from oplib.errors import AutogradError
from tests.autograd.functions import Probe

engine = Variable._execution_engine


@pytest.mark.spec("004.14")
def test_callbacks_run_last_in_order_with_those_they_queue():
    x = oplib.tensor(1.0, requires_grad=True)
    log = []
    x.register_post_accumulate_grad_hook(lambda _: log.append("leaf"))

    def first():
        log.append(("first", current_graph_task_id() >= 0, oplib.is_grad_enabled()))
        engine.queue_callback(lambda: log.append("nested"))

    def queue():
        engine.queue_callback(first)
        engine.queue_callback(lambda: log.append("second"))

    Probe.apply(x, queue).backward()
    assert log == ["leaf", ("first", True, False), "second", "nested"]


@pytest.mark.spec("004.14")
def test_callbacks_are_skipped_when_a_node_fails():
    def queue_and_fail():
        engine.queue_callback(lambda: log.append("called"))
        raise ValueError

    log = []
    with pytest.raises(ValueError):
        Probe.apply(oplib.tensor(1.0, requires_grad=True), queue_and_fail).backward()
    assert log == []


@pytest.mark.spec("004.14")
def test_an_exception_in_a_callback_skips_the_later_ones():
    def fail():
        raise ValueError("callback")

    def queue():
        engine.queue_callback(fail)
        engine.queue_callback(lambda: log.append("later"))

    log = []
    x = oplib.tensor(1.0, requires_grad=True)
    with pytest.raises(ValueError, match="callback"):
        Probe.apply(x, queue).backward()
    assert log == []
    assert x.grad.item() == 1.0


@pytest.mark.spec("004.14", "E.8")
def test_a_nested_run_calls_its_own_callbacks_before_the_outer_goes_on():
    log = []

    def inner():
        engine.queue_callback(lambda: log.append("outer"))
        z = oplib.tensor(1.0, requires_grad=True)
        with oplib.enable_grad():
            Probe.apply(z, lambda: engine.queue_callback(lambda: log.append("inner"))).backward()
        log.append("after inner")

    Probe.apply(oplib.tensor(1.0, requires_grad=True), inner).backward()
    assert log == ["inner", "after inner", "outer"]


@pytest.mark.spec("004.14")
def test_queueing_a_callback_outside_a_run_raises():
    with pytest.raises(AutogradError, match="only be installed during backward pass"):
        engine.queue_callback(print)


@pytest.mark.spec("004.14")
def test_a_callback_that_cannot_be_called_is_a_type_error():
    x = oplib.tensor(1.0, requires_grad=True)
    with pytest.raises(TypeError, match="'int' object is not callable"):
        Probe.apply(x, lambda: engine.queue_callback(3)).backward()
