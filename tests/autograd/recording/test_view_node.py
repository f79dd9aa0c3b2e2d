"""The nodes of views, where a program holds their formulas."""

import jax
import pytest

import oplib
from oplib.autograd import compiled_autograd, grad


def test_a_compiled_backward_takes_the_formulas_of_views_into_its_program():
    counters = compiled_autograd.counters["compiled_autograd"]
    leaf = oplib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    x = leaf * 1
    stale = x[:, 1:].t()
    x.mul_(2)
    first, second = x.unbind(0)
    before = dict(counters)
    with compiled_autograd.enable():
        ((stale * stale).sum() + first[0] + 3 * second[2]).backward()
    assert counters["captures"] == before.get("captures", 0) + 1
    assert counters["compiles"] <= before.get("compiles", 0) + 1
    assert leaf.grad.tolist() == [[2.0, 16.0, 24.0], [0.0, 40.0, 54.0]]


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.expand(2, 2)[1],
        lambda x: x.view(2, 1)[:, 0].flip(0),
        lambda x: oplib.cat(x.split(1)),
        lambda x: oplib.stack(x.unbind()),
    ],
)
def test_a_batched_pass_through_views_is_traced_once(view, monkeypatch):
    x = oplib.tensor([1.0, 2.0], requires_grad=True)

    def run():
        return grad(view(x) * x, x, oplib.eye(2), is_grads_batched=True)[0].tolist()

    first = run()
    monkeypatch.setattr(jax, "vmap", None)
    assert run() == first


@pytest.mark.parametrize("view", [lambda x: x[1:] * x[:-1], lambda x: x.unbind()[1] * x.view(2, 1)[1]])
def test_views_in_the_body_of_a_loop_are_differentiated(view):
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    looped = oplib.tensor([1.0, 2.0], requires_grad=True)
    (view(x) * view(x)).sum().backward()
    oplib.scan(lambda carry, _: (carry * view(looped).sum(), None), oplib.ones(()), oplib.arange(2))[
        0
    ].backward()
    assert looped.grad.tolist() == x.grad.tolist()
