"""Interrupts and errors while a program runs leave Tensors that can be used, and the writes complete."""

import numpy as np
import pytest

import oplib
from tests.interrupts import find_locks, find_taken, interrupt_everywhere

pytestmark = pytest.mark.spec("J.8")


@pytest.mark.parametrize("donate", [True, False])
def test_an_interrupt_of_a_call_loses_no_array(donate):
    weight, moment = oplib.zeros(4), oplib.zeros(4)

    def write(x):
        moment.add_(x)
        weight.add_(moment * 0 + x)

    step, renew = oplib.jit(donate=donate)(write), oplib.jit(write)
    x, locks = oplib.ones(4), find_locks()
    for _ in range(2):  # the second call writes into the buffers of the first
        step(x)
        renew(x)
    count = 0
    for place in interrupt_everywhere(lambda: step(x)):
        count += 1
        assert (place, find_taken(locks)) == (place, [])
        assert (place, weight._version, moment._version) == (place, weight.tolist()[0], moment.tolist()[0])
        assert (place, weight.tolist()) == (place, moment.tolist())
        step(x)
        renew(x)  # its arrays are those that a step may find unread
    assert count > 10
    assert step.compilations == 1


def test_an_interrupt_of_a_step_leaves_whole_gradients():
    weight = oplib.zeros(4, requires_grad=True)

    @oplib.jit
    def step():
        weight.grad = None
        (weight * 2).sum().backward()
        with oplib.no_grad():
            weight.add_(weight.grad)

    for _ in range(3):
        step()
    count = 0
    for place in interrupt_everywhere(step):
        count += 1
        assert (place, weight.tolist()) == (place, [2.0 * weight._version] * 4)
        assert weight.grad is None or (place, weight.grad.tolist()) == (place, [2, 2, 2, 2])
        step()
        step()
    assert count > 10
    assert step.compilations == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in finalizers of JAX
def test_an_interrupt_of_a_trace_changes_nothing():
    weight = oplib.ones(2, requires_grad=True)

    def train(x):
        weight.grad = None
        (x * weight).sum().backward()
        with oplib.no_grad():
            weight.sub_(weight.grad)

    count, x = 0, oplib.ones(2)
    for place in interrupt_everywhere(lambda: oplib.jit(train).lower(x), step=101):
        count += 1
        assert (place, weight.tolist(), weight.grad, weight._version) == (place, [1, 1], None, 0)
    assert count > 5
    oplib.jit(train)(x)
    assert weight.tolist() == [0, 0]


@pytest.mark.cpu  # elsewhere the call returns before the error is known
def test_an_error_on_the_host_while_a_program_runs_changes_nothing(forget_ops):
    fails = [False]

    @oplib.custom_op("jit_tests::failing")
    def failing(x: np.ndarray) -> np.ndarray:
        if fails[0]:
            raise ValueError("mine")
        return x * 2

    failing.register_fake(lambda x: x)
    weight = oplib.zeros(2)
    step = oplib.jit(lambda x: (weight.add_(failing(x)), None)[1])
    for _ in range(2):
        step(oplib.ones(2))
    fails[0] = True
    with pytest.raises(Exception, match="mine"):
        step(oplib.ones(2))
    fails[0] = False
    assert (weight.tolist(), weight._version) == ([4, 4], 2)
    step(oplib.ones(2))
    assert weight.tolist() == [6, 6]


def test_an_error_of_a_hook_while_tracing_changes_nothing():
    weight = oplib.ones(2, requires_grad=True)

    def refuse(grad):
        raise ValueError("mine")

    handle = weight.register_hook(refuse)
    step = oplib.jit(lambda x: (x * weight).sum().backward())
    with pytest.raises(ValueError, match="mine"):
        step(oplib.ones(2))
    assert weight.grad is None
    handle.remove()
    step(oplib.ones(2))
    assert weight.grad.tolist() == [1, 1]
