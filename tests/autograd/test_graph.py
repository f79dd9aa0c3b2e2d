"""Gradient edges and version counters, and what the module offers."""

import pytest

import oplib
from oplib.autograd import graph
from oplib.autograd.graph import (
    GradientEdge,
    _get_grad_fn_or_grad_acc,
    get_gradient_edge,
    increment_version,
    log,
)
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.errors import AutogradError, SavedTensorError


@pytest.mark.spec("000.10")
def test_the_accumulator_of_a_leaf_is_one_while_somebody_holds_it():
    x = oplib.tensor([1.0], requires_grad=True)
    first, second = gradient_edge(x), gradient_edge(x)
    assert first == second
    assert first[0].variable is x


@pytest.mark.spec("000.10", "D.2")
def test_an_edge_is_found_in_any_grad_mode():
    x = oplib.tensor([1.0], requires_grad=True)
    with oplib.no_grad():
        assert gradient_edge(x)[0].variable is x
        assert _get_grad_fn_or_grad_acc(x).variable is x


@pytest.mark.spec("000.10", "D.2")
def test_the_node_of_an_edge_of_a_result_and_of_a_tensor_outside_the_graph():
    y = oplib.tensor([1.0], requires_grad=True) * 2
    assert _get_grad_fn_or_grad_acc(y) is y.grad_fn
    assert _get_grad_fn_or_grad_acc(get_gradient_edge(y)) is y.grad_fn
    assert _get_grad_fn_or_grad_acc(oplib.tensor([1.0])) is None


@pytest.mark.spec("000.12")
def test_a_tensor_outside_the_graph_has_no_edge():
    x = oplib.tensor([1.0])
    assert gradient_edge(x) is None
    with pytest.raises(
        AutogradError, match=r"get the gradient edge for a Tensor that does not .* got f32\[1\]"
    ):
        get_gradient_edge(x)


@pytest.mark.spec("000.11", "000.12")
def test_an_edge_is_a_named_tuple_of_node_and_slot():
    x = oplib.tensor([1.0], requires_grad=True)
    y = x * 2
    edge = get_gradient_edge(y)
    assert edge == GradientEdge(y.grad_fn, 0)
    assert (*edge, edge.ownership_token) == (y.grad_fn, 0, None)
    assert "where one tensor" not in (GradientEdge.__doc__ or "")
    assert "receives the gradient of one tensor" in (GradientEdge.__doc__ or "")


@pytest.mark.spec("000.12", "D.11")
def test_edges_are_taken_as_outputs_and_as_inputs():
    x = oplib.tensor(3.0, requires_grad=True)
    y = x * x
    assert oplib.autograd.grad(get_gradient_edge(y), get_gradient_edge(x))[0].item() == 6.0
    z = x * x
    oplib.autograd.backward(get_gradient_edge(z), inputs=get_gradient_edge(x))
    assert x.grad.item() == 6.0


@pytest.mark.spec("000.13")
def test_increment_version_counts_for_aliases_too():
    x = oplib.tensor([1.0])
    alias = x.detach()
    increment_version(x)
    increment_version([alias, alias])
    assert x._version == alias._version == 3


@pytest.mark.spec("000.13")
def test_increment_version_skips_inference_tensors():
    with oplib.inference_mode():
        x = oplib.tensor([1.0])
    counted = oplib.tensor([1.0])
    increment_version([x, counted])
    assert counted._version == 1
    with pytest.raises(AutogradError, match="version"):
        _ = x._version


@pytest.mark.spec("000.13")
def test_a_saved_tensor_notices_increment_version():
    x = oplib.tensor([1.0], requires_grad=True)
    y = x * x
    increment_version(x)
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.spec("000.13")
@pytest.mark.parametrize(
    ("given", "text"), [(3, "iterable of Tensors. Got int"), ([3], "Got int at position 0")]
)
def test_increment_version_takes_tensors_only(given, text):
    with pytest.raises(AutogradError, match=text):
        increment_version(given)


@pytest.mark.spec("000.1")
def test_the_logger_is_named_after_its_module():
    assert log.name == "oplib.autograd.graph" == graph.__name__


@pytest.mark.spec("000.1")
def test_the_module_lists_what_torch_lists():
    names = {
        "GradientEdge",
        "Node",
        "allow_mutation_on_saved_tensors",
        "disable_saved_tensors_hooks",
        "get_gradient_edge",
        "increment_version",
        "register_multi_grad_hook",
        "save_on_cpu",
        "saved_tensors_hooks",
    }
    assert names <= set(graph.__all__)
    assert all(hasattr(graph, name) for name in graph.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        graph.nothing  # noqa: B018
