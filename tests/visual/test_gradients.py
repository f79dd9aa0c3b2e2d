"""``graph(loss, run=True)``: the gradients of each edge, the first nan or inf, and what stays as it was."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import AutogradError, SavedTensorError, TracingError
from oplib.visual import graph


def find(made, op):
    return next(node.number for node in made.nodes if node.op == op)


def test_the_gradient_of_each_edge_has_its_rms_and_largest_item():
    x = oplib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    made = graph((x * x).sum(), {"x": x}, run=True)
    report = made.gradients
    wanted = 2 * np.array([1.0, 2.0, 3.0])
    (leaf,) = report.arrives[find(made, "x")]
    assert leaf.rms == pytest.approx(np.sqrt(np.mean(wanted**2)))
    assert (leaf.largest, leaf.count, leaf.is_bad, leaf.shape) == (6.0, 3, False, "f32[3]")
    sent = report.edges[find(made, "sum"), find(made, "mul")]
    assert (sent.rms, sent.largest) == (1.0, 1.0)
    assert report.first is None


def test_the_first_node_that_makes_inf_is_found_with_its_value_and_spread():
    x, other = oplib.ones(3, requires_grad=True), oplib.ones(3, requires_grad=True)
    with oplib.no_grad():
        x[1] = 0.0
    made = graph(((x * 1.0).sqrt() * 2.0).sum() + other.sum(), {"x": x, "other": other}, run=True)
    report = made.gradients
    assert made.nodes[report.first.node].op == "sqrt"
    assert "1 of 3 items that leave are inf. There result is 0 at index [1]" in report.first.text
    assert report.first.text.endswith("It spreads to 1 of 2 leaves.")
    assert report.is_bad(find(made, "x"))
    assert not report.is_bad(find(made, "other"))
    assert 'class="node built-in first-bad"' in made.svg()


def test_grads_retained_gradients_versions_hooks_and_generators_stay_as_they_were():
    generator = oplib.Generator().manual_seed(3)
    drawn = oplib.rand(1, generator=generator).tolist()
    generator.manual_seed(3)
    x = oplib.ones(3, requires_grad=True)
    x.grad = oplib.ones(3) * 7.0
    held, version = x.grad, x.grad._version
    y = x * 2.0
    y.retain_grad()
    calls = []
    y.register_hook(lambda grad: calls.append(oplib.rand(1, generator=generator)))
    loss = (y * y).sum()
    has_hooks = loss.grad_fn.has_hooks
    graph(loss, {"x": x}, run=True)
    assert len(calls) == 1
    assert x.grad is held
    assert (held.tolist(), held._version) == ([7.0] * 3, version)
    assert y.grad is None
    assert oplib.rand(1, generator=generator).tolist() == drawn
    assert loss.grad_fn.has_hooks == has_hooks
    loss.backward()
    assert y.grad.tolist() == [4.0] * 3
    assert x.grad.tolist() == [15.0] * 3


def test_an_error_of_a_hook_leaves_everything_as_it_was():
    x = oplib.ones(3, requires_grad=True)
    y = x * 2.0
    y.retain_grad()

    def fail(grad):
        raise ValueError("mine")

    handle = x.register_hook(fail)
    with pytest.raises(ValueError, match="mine"):
        graph(y.sum(), run=True)
    handle.remove()
    assert y.grad is None
    assert x.grad is None
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3


def test_a_freed_graph_a_large_loss_and_a_trace_are_errors():
    x = oplib.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(SavedTensorError, match=r"a second time\. MulBackward0: its saved values"):
        graph(loss, run=True)
    with pytest.raises(AutogradError, match=r"graph: run=True needs losses of one item. Got f32\[3\]"):
        graph(x * x, run=True)

    def trace(array):
        traced = oplib.tensor(array).requires_grad_(True)
        graph((traced * traced).sum(), run=True)
        return array

    with pytest.raises(TracingError, match=r"graph: run=True reads the values of gradients"):
        jax.jit(trace)(np.ones(3, np.float32))


def test_small_gradients_keep_their_size():
    x = oplib.ones(4, requires_grad=True)
    made = graph((x * 1e-30).sum(), {"x": x}, run=True)
    assert made.gradients.arrives[find(made, "x")][0].rms == pytest.approx(1e-30)
