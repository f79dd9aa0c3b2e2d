"""One trace of a function: what is left of it."""

from types import SimpleNamespace

import jax

import oplib


def test_a_trace_leaves_no_traced_value_behind():
    weight = oplib.ones(2, requires_grad=True)
    kept = SimpleNamespace(hidden=oplib.zeros(2))

    @oplib.jit
    def step(x):
        loss = (weight * x).sum()
        loss.backward()
        with oplib.no_grad():
            weight.sub_(weight.grad, alpha=0.5)
        weight.grad = None
        kept.hidden = kept.hidden + x
        return loss.detach(), x[:1], oplib.rand(2)

    with jax.checking_leaks():
        for _ in range(2):
            step(oplib.ones(2))
        oplib.jit(lambda x: (x * weight).sin())(oplib.ones(2)).sum().backward()
    assert (weight.tolist(), kept.hidden.tolist()) == ([0.0, 0.0], [2.0, 2.0])
    assert weight.grad.tolist() == [1.0, 1.0]
