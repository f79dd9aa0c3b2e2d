"""Edges as users see them, and gradients by them."""

import pytest

import oplib
from oplib.autograd import grad
from oplib.autograd.graph import GradientEdge, get_gradient_edge
from oplib.errors import AutogradError, GradientTypeError


def test_the_edge_of_an_output_takes_its_gradient():
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    first, second = (x * x).unbind(0)
    edge = get_gradient_edge(second)
    assert (edge.node, edge.output_nr) == (second.grad_fn, 1)
    assert grad(3 * first + 5 * second, edge)[0].item() == 5.0
    assert grad(edge, x)[0].tolist() == [0.0, 4.0]
    assert get_gradient_edge(x).node.name().endswith("AccumulateGrad")


def test_what_is_no_edge_of_the_graph_is_refused():
    x = oplib.tensor([1.0], requires_grad=True)
    y = (x * 2).sum()
    with pytest.raises(AutogradError, match="for a Tensor that does not require gradients"):
        get_gradient_edge(oplib.ones(1))
    with pytest.raises(AutogradError, match=r"first item must be an autograd\.graph\.Node"):
        grad(y, GradientEdge(object(), 0))
    with pytest.raises(GradientTypeError, match="second item must be an integer"):
        grad(y, GradientEdge(y.grad_fn, "0"))
    for slot in (1, -1):
        with pytest.raises(AutogradError, match=f"has no slot {slot}"):
            grad(y, GradientEdge(y.grad_fn, slot))


def test_each_node_leads_to_those_of_its_inputs():
    x = oplib.tensor([1.0], requires_grad=True)
    y = x.exp() * oplib.ones(1)
    (first, other) = y.grad_fn.next_functions
    assert other == (None, 0)
    assert first[0].name().endswith("ExpBackward0")
    assert [node.name().rpartition("::")[2] for node, _ in first[0].next_functions] == ["AccumulateGrad"]
