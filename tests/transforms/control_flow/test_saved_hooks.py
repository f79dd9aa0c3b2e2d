"""Hooks for saved tensors and bodies of control flow, which JAX differentiates as a whole."""

import pytest

import oplib
from oplib.autograd import grad
from oplib.autograd.graph import saved_tensors_hooks
from oplib.errors import AutogradError

FLOWS = {
    "scan": lambda body, x: oplib.scan(lambda c, _: (body(c), None), x, length=2)[0],
    "cond": lambda body, x: oplib.cond(x.detach().sum() > 0, body, lambda x: x, x),
}


def halve():
    return saved_tensors_hooks(lambda tensor: tensor / 2, lambda kept: kept * 2)


def square(x):
    with halve():
        return x * x


@pytest.mark.parametrize("flow", FLOWS.values(), ids=list(FLOWS))
def test_hooks_that_a_body_enters_are_refused_where_the_call_is_differentiated(flow):
    x = oplib.tensor([2.0], requires_grad=True)
    with pytest.raises(AutogradError, match="enters hooks for saved tensors"):
        flow(square, x)
    with oplib.no_grad():
        assert flow(square, x).item() == (16 if flow is FLOWS["scan"] else 4)


@pytest.mark.parametrize("flow", FLOWS.values(), ids=list(FLOWS))
def test_a_backward_in_a_body_may_use_hooks(flow):
    def slope(x):
        inner = x.detach().requires_grad_()
        return x * grad(square(inner).sum(), inner)[0]

    x = oplib.tensor([2.0], requires_grad=True)
    result = flow(slope, x)
    assert grad(result, x)[0].item() == (64 if flow is FLOWS["scan"] else 4)
