"""Classes of users as nodes of trees."""

from __future__ import annotations

import dataclasses
from typing import Any

import optree
import pytest

from oplib.pytree import (
    register_pytree_node,
    tree_flatten_dataclasses,
    tree_leaves,
    tree_map,
)


class Box:
    def __init__(self, *items: Any) -> None:
        self.items = items


def test_a_registered_class_is_a_node_here_and_nowhere_else() -> None:
    assert len(tree_leaves(Box(1, 2))) == 1
    register_pytree_node(Box, lambda box: (list(box.items), "end"), lambda items, end: Box(*items, end))
    assert tree_leaves([Box(1, 2)]) == [1, 2]
    assert tree_map(lambda leaf: leaf * 10, Box(1, 2)).items == (10, 20, "end")
    assert len(optree.tree_leaves(Box(1, 2))) == 1
    with pytest.raises(ValueError, match="already registered"):
        register_pytree_node(Box, lambda box: ([], None), lambda items, context: Box())


def test_registering_a_dataclass_that_was_seen_before_replaces_its_fields() -> None:
    @dataclasses.dataclass
    class Late:
        x: int
        y: int

    assert tree_flatten_dataclasses(Late(1, 2))[0] == [1, 2]
    register_pytree_node(Late, lambda late: ([late.y], late.x), lambda children, x: Late(x, *children))
    assert tree_flatten_dataclasses(Late(1, 2))[0] == [2]
    assert tree_leaves(Late(1, 2)) == [2]
