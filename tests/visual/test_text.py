"""The graph as text: its lines, their order, and graphs of every form."""

from __future__ import annotations

import jax
import pytest

import oplib
from oplib.visual import graph_text


def make_leaf(*shape):
    return oplib.ones(shape, requires_grad=True)


def read_lines(*args, **kwargs):
    return graph_text(*args, **kwargs).splitlines()


def test_a_node_shows_its_name_its_gradients_and_its_receivers():
    w = make_leaf(2, 3)
    assert read_lines(w.exp(), params={"w": w}) == [
        "root f32[2,3] -> %1",
        "%1  ExpBackward0  f32[2,3]  -> w",
        "w  f32[2,3]",
    ]


def test_an_input_that_needs_no_gradient_is_a_dash():
    w = make_leaf(2)
    assert "-> -, w" in graph_text(oplib.ones(2) * w, params={"w": w})


def test_leaves_without_a_name_are_numbered():
    lines = read_lines(make_leaf(2) * make_leaf(2))
    assert lines[1].endswith("-> leaf1, leaf2")
    assert lines[2:] == ["leaf1  f32[2]", "leaf2  f32[2]"]


def test_named_leaves_stand_in_the_order_of_params():
    a, b = make_leaf(2), make_leaf(3)
    lines = read_lines(a.sum() * b.sum(), params={"b": b, "a": a})
    assert lines[-2:] == ["b  f32[3]", "a  f32[2]"]


def test_a_leaf_under_two_names_is_reached_under_both():
    w = make_leaf(2)
    assert "no gradient reaches" not in graph_text(w.exp(), params={"a": w, "b": w})


def test_a_parameter_that_no_gradient_reaches_is_listed():
    w, lost = make_leaf(2), make_leaf(3)
    assert read_lines(w.exp(), params={"w": w, "lost": lost})[-1] == "no gradient reaches lost  f32[3]"


def test_a_shared_node_has_one_line_and_is_referred_to():
    x = make_leaf(2)
    shared = x.exp()
    text = graph_text(shared.sin() + shared.cos())
    assert text.count("ExpBackward0") == 1
    assert text.count("-> %4") == 2


def test_a_node_stands_after_all_that_send_to_it():
    x = make_leaf(2)
    y = x.exp()
    for _ in range(5):
        y = y * x + y.sin()
    senders = {}
    for line in read_lines(y)[1:]:
        if "->" in line:
            number = int(line[1:].split()[0])
            targets = [int(part[1:]) for part in line.partition("-> ")[2].split(", ") if part[0] == "%"]
            for target in targets:
                senders.setdefault(target, []).append(number)
    assert senders
    assert all(target > max(numbers) for target, numbers in senders.items())


def test_among_nodes_that_are_ready_the_one_recorded_last_stands_first():
    x = make_leaf(2)
    first, second, third = x.exp(), x.sin(), x.cos()
    names = [line.split()[1] for line in read_lines([second, third, first])[3:6]]
    assert names == ["CosBackward0", "SinBackward0", "ExpBackward0"]
    names = [line.split()[1] for line in read_lines(first + second)[1:4]]
    assert names == ["AddBackward0", "SinBackward0", "ExpBackward0"]


class TwoResults(oplib.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x.sum()

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h


def test_a_slot_of_a_node_with_several_is_named():
    first, second = TwoResults.apply(make_leaf(2))
    lines = read_lines([second, first])
    assert lines[:2] == ["root f32[] -> %1.1", "root f32[2] -> %1.0"]
    assert lines[2].split("  ")[1:] == ["TwoResultsBackward", "f32[2], f32[]", "-> leaf1"]


def test_several_tensors_may_be_given_also_without_a_graph():
    w = make_leaf(2)
    lines = read_lines((w, oplib.ones(3)), params={"w": w})
    assert lines == ["root f32[2] -> w", "root f32[3] -> no graph: it does not require grad", "w  f32[2]"]


def test_columns_are_aligned():
    lines = read_lines((make_leaf(10, 10).exp().sum() * make_leaf()).sin())
    places = {line.index("->") for line in lines if line.startswith("%")}
    assert len(places) == 1


def test_a_graph_whose_backward_has_run_can_be_shown():
    w = make_leaf(2)
    loss = w.exp().sum()
    before = graph_text(loss)
    loss.backward()
    assert graph_text(loss) == before


def test_a_graph_under_a_trace_can_be_shown():
    texts = []

    def trace(array):
        w = oplib.Tensor.from_array(array, requires_grad=True)
        texts.append(graph_text(w.exp(), params={"w": w}))
        return array

    jax.jit(trace)(jax.numpy.ones(2))
    assert "ExpBackward0" in texts[0]


def test_a_deep_graph_needs_no_recursion():
    x = make_leaf()
    y = x
    for _ in range(3_000):
        y = y * x
    assert len(read_lines(y)) == 3_000 + 2


def test_an_object_that_is_no_tensor_is_refused():
    with pytest.raises(
        TypeError, match=r"graph_text: 'tensor_or_tensors' holds something .* Got float. Pass Tensors"
    ):
        graph_text(1.0)
    with pytest.raises(TypeError, match=r"graph_text: 'params' holds something that is no Tensor. Got str"):
        graph_text(make_leaf(2), params={"w": "w"})
