"""Classes that take over ``backward`` and ``grad``."""

from typing import ClassVar

import pytest

import oplib
from oplib.autograd import backward, grad
from oplib.autograd.engine.backward_and_grad import find_overrides, is_tensor_like
from oplib.errors import GradientTypeError


class Recorder:
    """Takes over every call and returns it."""

    calls: ClassVar[list] = []

    @classmethod
    def __oplib_function__(cls, func, types, args, kwargs):
        cls.calls.append((func, types, args, kwargs))
        return tuple("found" for _ in args[-1])


class Deaf(Recorder):
    @classmethod
    def __oplib_function__(cls, func, types, args, kwargs):
        return NotImplemented


@pytest.fixture(autouse=True)
def forget_calls():
    Recorder.calls.clear()


@pytest.mark.spec("001.8")
def test_grad_hands_the_whole_call_over():
    x, like = oplib.tensor([1.0], requires_grad=True), Recorder()
    assert grad((x * x).sum(), [x, like], materialize_grads=True) == ("found", "found")
    ((func, types, (outputs, inputs), kwargs),) = Recorder.calls
    assert func is grad
    assert types == (Recorder,)
    assert inputs == (x, like)
    assert len(outputs) == 1
    assert kwargs["allow_unused"] is True
    assert set(kwargs) == {
        "grad_outputs",
        "retain_graph",
        "create_graph",
        "only_inputs",
        "allow_unused",
        "is_grads_batched",
        "materialize_grads",
    }


@pytest.mark.spec("001.8")
def test_a_dictionary_gets_its_keys_back():
    assert grad(Recorder(), {"a": Recorder()}) == {"a": "found"}


@pytest.mark.spec("001.7")
def test_backward_hands_the_whole_call_over():
    like = Recorder()
    backward(like, retain_graph=True)
    ((func, _, (outputs,), kwargs),) = Recorder.calls
    assert func is backward
    assert outputs == (like,)
    assert kwargs == {"grad_tensors": None, "retain_graph": True, "create_graph": False, "inputs": None}


@pytest.mark.spec("001.7")
def test_a_tensor_of_a_class_that_takes_calls_over_hands_its_backward_over():
    class Own(oplib.Tensor):
        __oplib_function__ = Recorder.__oplib_function__

    x = oplib.tensor([1.0], requires_grad=True)
    y = (x * 2).sum()
    y.__class__ = Own
    y.backward(retain_graph=True)
    ((func, types, (outputs,), kwargs),) = Recorder.calls
    assert (func, types, kwargs["retain_graph"], x.grad) == (backward, (Own,), True, None)
    assert outputs[0] is y


def test_a_subclass_is_asked_before_its_base():
    assert find_overrides([Recorder(), Deaf(), oplib.tensor(1.0), Recorder()]) == [Deaf, Recorder]
    assert grad([Recorder()], [Deaf()]) == ("found",)


def test_a_call_that_nobody_makes_raises():
    with pytest.raises(GradientTypeError, match=r"grad: no implementation.*Deaf\.__oplib_function__"):
        grad(Deaf(), Deaf())


def test_what_is_tensor_like():
    assert is_tensor_like(oplib.tensor(1.0))
    assert is_tensor_like(Recorder())
    assert not is_tensor_like(3)


@pytest.mark.spec("001.8")
def test_a_contradiction_is_found_before_anybody_is_asked():
    with pytest.raises(
        ValueError, match="Expected allow_unused to be True or not passed when materialize_grads=True"
    ):
        grad(Recorder(), [Recorder()], allow_unused=False, materialize_grads=True)
    assert Recorder.calls == []


@pytest.mark.spec("001.8")
def test_who_takes_over_is_not_warned_of_only_inputs():
    assert grad(Recorder(), [Recorder()], only_inputs=False) == ("found",)
    assert Recorder.calls[0][3]["only_inputs"] is False
