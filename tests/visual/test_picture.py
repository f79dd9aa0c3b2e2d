"""The levels of a picture: every edge is drawn from the node that made a value to the node that reads it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import oplib
from oplib.visual import read_nodes
from oplib.visual.picture import MOST_KEPT, Box, PictureLevel, compose


def block(h: Any, w: Any) -> Any:
    return (h @ w).sigmoid() * h


def layer(h: Any, w: Any) -> Any:
    h = h + block(h.tanh(), w)
    return h - block(h.tanh(), w)


def make_loss(turns: int) -> Any:
    w = oplib.eye(4, requires_grad=True)
    h = oplib.ones(3, 4) @ w
    for _ in range(turns):
        h = layer(h, w)
    return h.sum()


def list_boxes(level: PictureLevel) -> Iterator[Box]:
    for part in level.vertices:
        if isinstance(part, Box):
            yield part
            yield from list_boxes(part.level)


def follow(level: PictureLevel, nodes: Any) -> set[tuple[int, int]]:
    """Returns the edges between drawn nodes, followed through the borders of boxes."""
    edges: set[tuple[int, int]] = set()

    def find_readers(level: PictureLevel, vertex: int, value: int) -> Iterator[int]:
        keys = list(level.vertices)
        for start, end, made in level.links:
            if (start, made) != (vertex, value):
                continue
            key = keys[end]
            if isinstance(key, int):
                yield key
            elif isinstance(key, Box):
                port = key.level.vertices.get((False, value))  # None: only turns that are not drawn read it
                yield from () if port is None else find_readers(key.level, port, value)
            else:
                yield from leave(level, value)

    parents = {box.level: (around, box) for around in all_levels(level) for box in direct(around)}

    def leave(level: PictureLevel, value: int) -> Iterator[int]:
        around, box = parents[level]
        yield from find_readers(around, around.vertices[box], value)

    for one in all_levels(level):
        for key, vertex in one.vertices.items():
            if isinstance(key, int):
                edges |= {(key, reader) for reader in find_readers(one, vertex, key)}
    return edges


def direct(level: PictureLevel) -> list[Box]:
    return [part for part in level.vertices if isinstance(part, Box)]


def all_levels(level: PictureLevel) -> list[PictureLevel]:
    return [level, *(box.level for box in list_boxes(level))]


def list_drawn(level: PictureLevel) -> set[int]:
    return {key for one in all_levels(level) for key in one.vertices if isinstance(key, int)}


@pytest.mark.parametrize("turns", [1, 3, 9])
def test_each_edge_between_drawn_nodes_is_drawn_through_all_borders(turns: int) -> None:
    nodes = read_nodes(make_loss(turns))
    root = compose(nodes, None)
    drawn = list_drawn(root)
    wanted = {
        (target, node.number)
        for node in nodes
        for target, _ in node.edges
        if target in drawn and node.number in drawn
    }
    assert follow(root, nodes) == wanted
    assert len(drawn) == (len(nodes) if turns == 3 else len(drawn))


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs_have_all_their_edges(seed: int) -> None:
    rng = random.Random(seed)
    w = oplib.eye(3, requires_grad=True)
    values: list[Any] = [w * 1.0]
    for _ in range(40):
        step = rng.choice([block, layer, lambda a, b: a - b])
        values.append(step(rng.choice(values[-6:]), rng.choice([w, *values[-6:]])))
    nodes = read_nodes(sum(values[-3:]).sum())
    root = compose(nodes, None)
    drawn = list_drawn(root)
    assert follow(root, nodes) == {
        (target, node.number)
        for node in nodes
        for target, _ in node.edges
        if target in drawn and node.number in drawn
    }


def test_the_turn_that_is_drawn_gets_the_result_of_the_turn_before() -> None:
    nodes = read_nodes(make_loss(12))
    root = compose(nodes, None)
    (box,) = direct(root)
    (value,) = box.level.list_ports(leaving=False)
    assert nodes[value].op == "sub"
    assert value in box.group.members
    assert value not in list_drawn(root)


def test_a_closed_box_says_what_enters_and_what_leaves() -> None:
    root = compose(read_nodes(make_loss(12)), None, most=3)
    (box,) = direct(root)
    assert not box.is_open
    assert box.can_open
    assert "layer() ×12" in box.head
    assert "f32[3, 4], leaf1 → f32[3, 4]" in box.note


def test_boxes_are_open_from_outside_as_far_as_all_of_a_depth_fit() -> None:
    nodes = read_nodes(make_loss(3))
    opened = {
        most: [box.is_open for box in list_boxes(compose(nodes, None, most=most))] for most in (3, 25, 99)
    }
    assert opened[3] == [False] * 9
    assert opened[25] == [True, False, False] * 3
    assert opened[99] == [True] * 9


def test_what_is_too_much_for_a_page_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_KEPT > 1_000
    monkeypatch.setattr("oplib.visual.picture.MOST_KEPT", 25)
    root = compose(read_nodes(make_loss(3)), None)
    assert [box.can_open for box in list_boxes(root)] == [True, False, False] * 3
