"""Gradient edges and version counters."""

import pytest

import oplib
from oplib.autograd.accumulate import gradient_edge
from oplib.autograd.graph import GradientEdge, get_gradient_edge, increment_version, log
from oplib.errors import AutogradError, SavedTensorError


def test_the_accumulator_of_a_leaf_is_one_while_somebody_holds_it():
    x = oplib.tensor([1.0], requires_grad=True)
    first, second = gradient_edge(x), gradient_edge(x)
    assert first == second
    assert first[0].variable is x


def test_an_edge_is_found_in_any_grad_mode():
    x = oplib.tensor([1.0], requires_grad=True)
    with oplib.no_grad():
        assert gradient_edge(x)[0].variable is x


def test_a_tensor_outside_the_graph_has_no_edge():
    x = oplib.tensor([1.0])
    assert gradient_edge(x) is None
    with pytest.raises(AutogradError, match=r"no gradient edge. Got f32\[1\] that does not require grad"):
        get_gradient_edge(x)


def test_an_edge_is_a_named_tuple_of_node_and_slot():
    x = oplib.tensor([1.0], requires_grad=True)
    y = x * 2
    edge = get_gradient_edge(y)
    assert edge == GradientEdge(y.grad_fn, 0)
    assert (edge.node, edge.output_nr, edge.ownership_token) == (y.grad_fn, 0, None)


def test_increment_version_counts_for_aliases_too():
    x = oplib.tensor([1.0])
    alias = x.detach()
    increment_version(x)
    increment_version([alias, alias])
    assert x._version == alias._version == 3


def test_a_saved_tensor_notices_increment_version():
    x = oplib.tensor([1.0], requires_grad=True)
    y = x * x
    increment_version(x)
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize(
    ("given", "text"), [(3, "iterable of Tensors. Got int"), ([3], "Got int at position 0")]
)
def test_increment_version_takes_tensors_only(given, text):
    with pytest.raises(AutogradError, match=text):
        increment_version(given)


def test_the_logger_is_named_after_its_module():
    assert log.name == "oplib.autograd.graph"
