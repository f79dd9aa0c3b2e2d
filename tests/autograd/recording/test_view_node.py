"""The nodes of views, where a program holds their formulas."""

import jax
import pytest

import oplib
from oplib.autograd import backward, compiled_autograd, detect_anomaly, grad
from oplib.tensor import upcalls


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


@pytest.mark.parametrize("dtype", [oplib.float32, oplib.bfloat16, oplib.complex64])
def test_gradients_of_views_are_added_one_by_one_to_what_has_arrived(dtype, monkeypatch):
    x = oplib.ones(6, dtype=dtype).requires_grad_()
    y = x * 1
    parts = [y[place : place + 3] for place in range(4)]
    grads = [(oplib.tensor([0.1, 0.2, 0.7]) * (place + 1)).to(dtype) for place in range(4)]
    padded = [oplib.zeros(6, dtype=dtype) for _ in grads]
    for place, one in enumerate(padded):
        one[place : place + 3] = grads[place]
    expected = ((padded[3] + padded[2]) + padded[1]) + padded[0]  # the latest node runs first
    if not oplib.config.compiled_autograd:  # a program adds them as it likes
        monkeypatch.setattr(upcalls, "add_arrays", None)
    backward(parts, grads)
    assert x.grad.tolist() == expected.tolist()


def test_the_sum_of_an_expanded_view_is_rounded_before_it_is_added_to_another():
    x = oplib.ones(1, dtype=oplib.bfloat16).requires_grad_()
    y = x * 1
    grads = [oplib.linspace(0.1, 1.0, 301).to(oplib.bfloat16), oplib.full((1,), 0.7, dtype=oplib.bfloat16)]
    outputs = [y.expand(301), y * 1]  # the later one arrives first
    alone = [grad(output, x, one, retain_graph=True)[0] for output, one in zip(outputs, grads, strict=True)]
    backward(outputs, grads)
    assert x.grad.tolist() == (alone[1] + alone[0]).tolist()


def test_a_hook_of_the_node_of_a_view_sees_the_gradient_of_the_view_alone():
    x = oplib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y, seen = x * 1, []
    first, second = y[:2], y[1:]
    first.grad_fn.register_hook(lambda into, _: seen.append(into[0].tolist()))
    backward([first, second], [oplib.ones(2), oplib.full((2,), 5.0)])
    assert seen == [[1.0, 1.0, 0.0]]
    assert x.grad.tolist() == [1.0, 6.0, 5.0]


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled", "ignore:Error detected in")
def test_anomaly_detection_does_not_blame_a_view_for_the_sum_of_two():
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    grads = [oplib.tensor([float("inf")]), oplib.tensor([float("-inf")])]
    with detect_anomaly():
        y = x * 1
        with pytest.raises(oplib.errors.AutogradError, match=r"^MulBackward0"):
            backward([y[:1], y[:1]], grads)


def test_a_batched_pass_through_several_views_is_that_of_each_row():
    x = oplib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    parts = y[:2] * y[1:] + y[:1]
    rows = [grad(parts, x, row, retain_graph=True)[0].tolist() for row in oplib.eye(2)]
    assert grad(parts, x, oplib.eye(2), is_grads_batched=True)[0].tolist() == rows


def test_a_backward_in_a_trace_adds_the_gradients_of_views():
    def run(array):
        x = oplib.Tensor.from_array(array, requires_grad=True)
        y = x * x
        (y[:2] * y[1:]).sum().backward()
        return x.grad.array

    array = oplib.tensor([1.0, 2.0, 3.0]).array
    assert jax.jit(run)(array).tolist() == run(array).tolist()
