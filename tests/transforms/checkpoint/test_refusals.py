"""The calls that a checkpoint refuses, and its errors if the repetition differs from the forward."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import jax
import pytest

import oplib
from oplib.autograd import grad
from oplib.errors import ArgumentValueError, AutogradError, CheckpointError
from oplib.utils.checkpoint import (
    CheckpointFunction,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
)

from .regions import Region


class Unsteady:
    """Does one thing in the forward, and another when it is repeated."""

    def __init__(self, first, then):
        self._steps = [first, then]

    def __call__(self, x):
        return self._steps.pop(0)(x)


def test_a_repetition_that_saves_less_raises(x):
    function = Unsteady(lambda x: x.sin().exp(), lambda x: x.sin())
    with pytest.raises(CheckpointError, match=r"(?s)different number.*during forward: 2\n.*recomputation: 1"):
        checkpoint(function, x, use_reentrant=False).sum().backward()


def test_a_repetition_that_saves_more_raises_unless_it_stops_early(x):
    def make():
        return Unsteady(lambda x: x.sin(), lambda x: x.sin().exp())

    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        checkpoint(make(), x, use_reentrant=False, early_stop=False).sum().backward()
    checkpoint(make(), x, use_reentrant=False).sum().backward()


def test_a_repetition_that_saves_other_shapes_raises_unless_that_is_not_checked(x):
    def make():
        return Unsteady(lambda x: (x * 1).exp().sum(), lambda x: x.sum().exp())

    text = r"(?s)different metadata.*position 0:\nsaved metadata: .*\(2,\).*recomputed metadata: .*\(\)"
    with pytest.raises(CheckpointError, match=text):
        checkpoint(make(), x, use_reentrant=False).sum().backward()
    checkpoint(make(), x, use_reentrant=False, determinism_check="none").sum().backward()


@pytest.mark.spec("001.10", "004.15")
def test_a_reentrant_checkpoint_refuses_grad_and_inputs(x, w):
    text = r"incompatible with .grad\(\) or passing an `inputs` parameter"
    with pytest.raises(AutogradError, match=text):
        grad(checkpoint(Region(), x, w, use_reentrant=True).sum(), x)
    with pytest.raises(AutogradError, match=text):
        checkpoint(Region(), x, w, use_reentrant=True).sum().backward(inputs=[x])


def test_a_reentrant_checkpoint_whose_function_cuts_history_raises(x):
    result = checkpoint(lambda x: x.detach() * 2, x, use_reentrant=True)
    with pytest.raises(AutogradError, match="none of output has requires_grad=True"):
        result.sum().backward()


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda run, x: jax.grad(lambda array: run(oplib.Tensor.from_array(array)).array)(x.array),
        lambda run, x: jax.jvp(lambda array: run(oplib.Tensor.from_array(array)).array, [x.array], [x.array]),
        lambda run, x: oplib.cond(oplib.tensor(True), run, run, x).backward(),
        lambda run, x: oplib.scan(lambda c, _: (c * run(c), None), x, None, length=2)[0].sum().backward(),
    ],
    ids=["grad", "jvp", "cond", "scan"],
)
def test_a_reentrant_checkpoint_that_jax_differentiates_says_so(x, differentiate):
    with pytest.raises(AutogradError, match="only the tape can differentiate it, and JAX does here"):
        differentiate(lambda x: checkpoint(lambda x: (x * x).sum(), x, use_reentrant=True), x)
    differentiate(lambda x: checkpoint(lambda x: (x * x).sum(), x, use_reentrant=False), x)


def test_a_reentrant_checkpoint_in_a_program_is_differentiated_inside_of_it_only(x):
    def run(x):
        return checkpoint(lambda x: (x * x).sum(), x, use_reentrant=True)

    with pytest.raises(
        AutogradError, match=r"a backward outside of the oplib.jit .* inside of the oplib.jit"
    ):
        oplib.jit(run)(x).backward()
    oplib.jit(lambda x: run(x).backward())(x)
    assert x.grad.tolist() == (2 * x).tolist()


def test_a_reentrant_checkpoint_warns_where_no_argument_requires_grad(x):
    w = oplib.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True. Gradients") as told:
        y = checkpoint(lambda x: x * w, x.detach(), use_reentrant=True)
    assert not y.requires_grad
    assert told[0].filename == __file__
    assert len(str(told[0].message)) <= 400
    with pytest.warns(UserWarning, match="None of the inputs"):
        checkpoint_sequential([oplib.sin, oplib.exp], 2, x.detach(), use_reentrant=True)
    with pytest.warns(UserWarning, match="None of the inputs"):
        check_backward_validity([x.detach(), 1])


def test_a_reentrant_checkpoint_does_not_warn_where_no_gradient_is_asked_for(x):
    """Warnings are errors here. JAX does not tell a trace what it differentiates."""

    def square(x):
        return checkpoint(lambda x: x * x, x, use_reentrant=True)

    square(x)
    checkpoint(square, x, use_reentrant=True).sum().backward()
    with oplib.no_grad():
        square(x.detach())
    array = x.detach().array
    assert jax.jit(square)(array).tolist() == oplib.jit(square)(x.detach()).tolist() == (x * x).tolist()


def test_the_choice_between_the_two_has_to_be_said(x):
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        result = checkpoint(lambda x: x * 2, x)
    assert isinstance(result.grad_fn, CheckpointFunction._backward_cls)
    with pytest.warns(UserWarning, match="checkpoint_sequential: the use_reentrant"):
        checkpoint_sequential([lambda x: x], 1, x)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"use_reentrant": True, "scale": 2}, "Unexpected keyword arguments: scale"),
        ({"use_reentrant": True, "debug": True}, "Got debug=True. Leave it out, and print in the function"),
        ({"use_reentrant": True, "context_fn": lambda: None}, "only supported when use_reentrant=False"),
        ({"use_reentrant": False, "debug": True}, "Got debug=True. Leave it out, and print in the function"),
        ({"use_reentrant": False, "determinism_check": "all"}, "should be one of .*Got 'all'"),
    ],
)
def test_options_that_exclude_each_other_raise(x, options, text):
    with pytest.raises(ArgumentValueError, match=text):
        checkpoint(lambda x: x, x, **options)


def test_an_exception_of_the_function_passes_through_and_leaves_no_hooks(x):
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        checkpoint(broken, x, use_reentrant=False)
    assert (x * x).grad_fn._saved_self is x


def test_a_context_that_swallows_exceptions_of_the_forward_is_refused(x):
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(CheckpointError, match="suppressed an exception"):
        checkpoint(broken, x, use_reentrant=False, context_fn=lambda: (suppress(KeyError), nullcontext()))
