"""Paths of leaves, beside those of torch."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from oplib import pytree
from oplib.pytree import tree_flatten, tree_flatten_dataclasses
from oplib.pytree.paths import find_different_path

torch_pytree = pytest.importorskip("torch.utils._pytree")


class Pair(NamedTuple):
    x: Any
    y: Any


TREES = [
    1,
    None,
    [],
    [1, (2, None), {"z": 3, 4: [deque([5])]}],
    Pair([1], OrderedDict(b=2, a=Pair(3, ()))),
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_paths_read_as_those_of_torch_and_lead_to_the_leaves(tree: Any) -> None:
    ours, spec = pytree.tree_flatten_with_path(tree)
    theirs, _ = torch_pytree.tree_flatten_with_path(tree)
    assert [(pytree.keystr(path), leaf) for path, leaf in ours] == [
        (torch_pytree.keystr(path), leaf) for path, leaf in theirs
    ]
    assert [pytree.key_get(tree, path) for path, _ in ours] == [leaf for _, leaf in ours]
    assert spec == tree_flatten(tree)[1]
    assert pytree.tree_leaves_with_path(tree, lambda one: one is tree) == [((), tree)]


@pytest.mark.parametrize("lib", [pytree, torch_pytree])
def test_a_function_is_mapped_with_the_path(lib: Any) -> None:
    tree, other = {"b": [1, None], "a": 2}, {"a": 5, "b": [(3,), 4]}
    found = lib.tree_map_with_path(lambda path, *leaves: (lib.keystr(path), *leaves), tree, other)
    assert found == {"b": [("['b'][0]", 1, (3,)), ("['b'][1]", None, 4)], "a": ("['a']", 2, 5)}


@dataclass
class Point:
    x: Any
    y: Any


@pytest.mark.parametrize(
    ("got", "expected", "path"),
    [
        ([1], [1, 2], "[1]"),
        ([1, 2], [1], "[1]"),
        ({"a": [1, (2,)]}, {"a": [1, [2]]}, "['a'][1][0]"),
        ({"a": 1}, {"b": 1}, "['b']"),
        (Point(1, [2]), Point(1, [2, 3]), ".y[1]"),
        (1, 2, ""),
    ],
)
def test_the_first_difference_of_two_structures_has_a_path(got: Any, expected: Any, path: str) -> None:
    specs = [tree_flatten_dataclasses(tree)[1] for tree in (got, expected)]
    assert find_different_path(*specs) == path
