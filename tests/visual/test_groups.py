"""Groups of nodes: calls of one function, and repetitions, as pictures show them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import oplib
from oplib.visual import graph, read_nodes
from oplib.visual.groups import MOST_ITEMS, NodeGroup, group_nodes


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


def list_titles(loss: Any, **options: Any) -> list[Any]:
    """Returns the titles of boxes, those of inner boxes in lists after them."""

    def read(parts: Any) -> list[Any]:
        titles: list[Any] = []
        for part in parts:
            if isinstance(part, NodeGroup):
                inner = read(part.parts)
                titles += [part.title, inner] if inner else [part.title]
        return titles

    return read(group_nodes(read_nodes(loss), **options))


def list_words(loss: Any) -> list[str]:
    return re.findall(r'<text class="(?:title|op)"[^>]*>(?:<tspan[^>]*></tspan>)?([^<]*)<', graph(loss).svg())


def test_150_calls_are_one_block_of_which_one_call_is_drawn() -> None:
    loss = repeat(block, 150)
    assert list_titles(loss) == ["block() ×150"]
    words = list_words(loss)
    assert sorted(words) == ["block() ×150", "leaf1", "leaf1", "matmul", "matmul", "mul", "sigmoid", "sum"]
    assert len(graph(loss).nodes) == 3 * 150 + 3  # none is lost


def test_24_layers_are_one_box_with_a_box_for_each_call_of_a_layer() -> None:
    assert list_titles(repeat(layer, 24)) == ["layer() ×24", ["attend()", "feed()"]]
    assert list_titles(repeat(layer, 2)) == [
        "layer[0]",
        ["attend()", "feed()"],
        "layer[1]",
        ["attend()", "feed()"],
    ]


def test_steps_of_a_loop_in_a_function_that_ran_once_are_no_calls_of_it() -> None:
    assert list_titles(run_cell(200)) == ["run_cell() loop ×200"]
    assert list_titles(run_cell(3)) == []


def test_calls_in_a_generator_belong_to_the_function_around_it() -> None:
    w = oplib.eye(4, requires_grad=True)

    def add_up(times: int) -> Any:
        return sum(block(oplib.ones(3, 4) * (number + 1), w).mean() for number in range(times))

    for times in (2, 30):
        assert "genexpr" not in str(list_titles(add_up(times)))
    assert list_titles(add_up(30)) == ["add_up() loop ×30", ["block()"]]
    made = graph(add_up(3))
    assert "genexpr" not in made.label
    assert [row.function for row in made.summary()] == ["block()", "add_up()"]


def test_what_differs_in_shape_op_or_order_is_no_repetition() -> None:
    w = oplib.eye(4, requires_grad=True)
    h = oplib.ones(3, 4) @ w
    for number in range(8):
        h = oplib.cat([block(h, w)] * 2) if number % 2 else block(h, w)
    assert "×" not in str(list_titles(h.sum()))
    assert list_titles(repeat(block, 3)) == ["block[0]", "block[1]", "block[2]"]


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


def test_a_box_of_repeated_calls_has_all_nodes_and_shows_those_of_the_last_call() -> None:
    nodes = read_nodes(repeat(layer, 12))
    parts = group_nodes(nodes)
    (folded,) = [part for part in parts if isinstance(part, NodeGroup)]
    alone = [part for part in parts if isinstance(part, int)]
    assert sorted([*alone, *folded.members]) == [node.number for node in nodes if not node.is_leaf]
    shown = list_shown(folded.parts)
    assert shown == folded.members[-len(shown) :]
    assert len(shown) * 12 == len(folded.members)


def list_shown(parts: Any) -> list[int]:
    return [
        number
        for part in parts
        for number in (list_shown(part.parts) if isinstance(part, NodeGroup) else [part])
    ]


@pytest.mark.slow
def test_irregular_graphs_of_ten_thousand_nodes_have_few_boxes_on_each_level() -> None:
    functions = [block, attend, feed, layer]
    w = oplib.eye(4, requires_grad=True)
    h = oplib.ones(3, 4) @ w
    state = 1
    for _ in range(2_500):
        state = state * 48_271 % 2_147_483_647
        h = functions[state % 4](h, w)
    ahead = [group_nodes(read_nodes(h.sum()))]
    while ahead:
        parts = ahead.pop()
        assert len(parts) <= MOST_ITEMS
        ahead += [part.parts for part in parts if isinstance(part, NodeGroup)]
