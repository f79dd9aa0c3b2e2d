"""Groups of nodes: calls of one function, and repetitions, as pictures show them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import oplib
from oplib.visual import graph, read_nodes
from oplib.visual.groups import group_nodes


def block(h: Any, w: Any) -> Any:
    return (h @ w).sigmoid() * h


def attend(h: Any, w: Any) -> Any:
    return (h @ w).softmax(-1) @ w


def feed(h: Any, w: Any) -> Any:
    return (h @ w).relu() @ w


def layer(h: Any, w: Any) -> Any:
    h = h + attend(h.tanh(), w)
    return h + feed(h.tanh(), w)


def repeat(function: Any, times: int) -> Any:
    w = oplib.eye(4, requires_grad=True)
    h = oplib.ones(3, 4) @ w
    for _ in range(times):
        h = function(h, w)
    return h.sum()


def run_cell(times: int) -> Any:
    w = oplib.eye(4, requires_grad=True)
    h, loss = oplib.zeros(3, 4), 0.0
    for _ in range(times):
        h = (oplib.ones(3, 4) @ w + h @ w).tanh()
        loss = loss + h.square().mean()
    return loss


def list_titles(loss: Any, **options: Any) -> list[str]:
    return [group.title for group in group_nodes(read_nodes(loss), **options)]


def list_words(loss: Any) -> list[str]:
    return re.findall(r'<text class="(?:title|op)"[^>]*>(?:<tspan[^>]*></tspan>)?([^<]*)<', graph(loss).svg())


def test_150_calls_are_one_block_of_which_one_call_is_drawn() -> None:
    loss = repeat(block, 150)
    assert list_titles(loss) == ["block() ×150"]
    words = list_words(loss)
    assert sorted(words) == ["block() ×150", "leaf1", "leaf1", "matmul", "matmul", "mul", "sigmoid", "sum"]
    assert len(graph(loss).nodes) == 3 * 150 + 3  # none is lost


def test_24_layers_are_one_block_with_the_functions_that_a_layer_calls() -> None:
    titles = list_titles(repeat(layer, 24))
    assert "layer(), attend() and 1 more ×23" in titles  # the first tanh reads another function's result
    assert len(titles) <= 4


def test_steps_of_a_loop_in_a_function_that_ran_once_are_no_calls_of_it() -> None:
    assert list_titles(run_cell(200)) == ["run_cell() loop ×200"]
    assert list_titles(run_cell(3)) == []


def test_calls_in_a_generator_belong_to_the_function_around_it() -> None:
    w = oplib.eye(4, requires_grad=True)

    def add_up(times: int) -> Any:
        return sum(block(oplib.ones(3, 4) * (number + 1), w).mean() for number in range(times))

    for times in (2, 30):
        assert not any("genexpr" in title for title in list_titles(add_up(times)))
    assert list_titles(add_up(30)) == ["block(), add_up() loop ×30"]
    assert "genexpr" not in graph(add_up(3)).label


def test_what_differs_in_shape_op_or_order_is_no_repetition() -> None:
    w = oplib.eye(4, requires_grad=True)
    h = oplib.ones(3, 4) @ w
    for number in range(8):
        h = oplib.cat([block(h, w)] * 2) if number % 2 else block(h, w)
    assert not any("×" in title for title in list_titles(h.sum()))
    assert list_titles(repeat(block, 3)) == ["block()"] * 3


def test_a_repetition_in_which_a_gradient_is_not_finite_is_drawn_whole() -> None:
    w = oplib.zeros(4, requires_grad=True)
    h = w
    for _ in range(6):
        h = block_of_roots(h)
    made = graph(h.sum(), {"w": w}, run=True)
    assert made.gradients is not None
    assert made.gradients.first is not None
    assert f'data-n="{made.gradients.first.node}"' in made.svg()


def block_of_roots(h: Any) -> Any:
    return h.sqrt() * 1.0


def test_every_node_is_in_one_group_or_alone_and_the_shown_ones_are_of_the_last_turn() -> None:
    nodes = read_nodes(repeat(layer, 12))
    groups = group_nodes(nodes)
    members = [number for group in groups for number in group.members if not nodes[number].is_leaf]
    assert len(members) == len(set(members))
    (folded,) = [group for group in groups if "×" in group.title]
    assert set(folded.shown) <= set(folded.members)
    assert len([number for number in folded.shown if not nodes[number].is_leaf]) * 11 == len(
        [number for number in folded.members if not nodes[number].is_leaf]
    )


@pytest.mark.slow
def test_irregular_graphs_of_ten_thousand_nodes_have_few_blocks() -> None:
    functions = [block, attend, feed, layer]
    w = oplib.eye(4, requires_grad=True)
    h = oplib.ones(3, 4) @ w
    state = 1
    for _ in range(2_500):
        state = state * 48_271 % 2_147_483_647
        h = functions[state % 4](h, w)
    groups = group_nodes(read_nodes(h.sum()))
    assert len(groups) <= 150
