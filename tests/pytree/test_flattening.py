"""Trees: torch's conventions on top of optree."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import optree
import pytest

from oplib import pytree
from oplib.errors import ArgumentTypeError
from oplib.pytree import (
    leaf_unless_list_of,
    tree_all_only,
    tree_any_only,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
)


class Pair(NamedTuple):
    a: Any
    b: Any


TREES = [
    1,
    None,
    [],
    (),
    [1, (2, None), {"z": 3, "a": [4]}],
    Pair([1], {"k": 2}),
    OrderedDict(z=1, a=2),
    {"b": {"d": 1, "c": 2}, "a": Pair(3, 4)},
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_a_tree_comes_back_from_its_leaves(tree: Any) -> None:
    leaves, spec = tree_flatten(tree)
    assert tree_unflatten(leaves, spec) == tree
    assert spec.num_leaves == len(leaves)


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_leaves_and_their_order_are_those_of_torch(tree: Any) -> None:
    torch_pytree = pytest.importorskip("torch.utils._pytree")
    assert tree_leaves(tree) == torch_pytree.tree_leaves(tree)


def test_dictionaries_keep_their_insertion_order() -> None:
    assert tree_leaves({"b": 1, "a": 2}) == [1, 2]
    leaves, spec = tree_flatten({"b": 1, "a": 2})
    assert list(tree_unflatten(leaves, spec)) == ["b", "a"]


def test_specs_of_dictionaries_in_another_order_differ_as_in_torch() -> None:
    assert tree_structure({"b": 1, "a": 2}) != tree_structure({"a": 1, "b": 2})


def test_the_order_of_dictionaries_elsewhere_in_optree_is_untouched() -> None:
    assert optree.tree_leaves({"b": 1, "a": 2}) == [2, 1]


def test_none_is_a_leaf() -> None:
    assert tree_leaves([None, (None,)]) == [None, None]


def test_equal_structures_have_equal_specs_and_hashes() -> None:
    assert tree_structure([1, (2,)]) == tree_structure([None, ("x",)])
    assert hash(tree_structure([1, (2,)])) == hash(tree_structure([3, (4,)]))
    assert tree_structure([1]) != tree_structure((1,))


def test_is_leaf_stops_the_descent() -> None:
    assert tree_leaves([[1, 2], (3,)], is_leaf=lambda tree: isinstance(tree, tuple)) == [1, 2, (3,)]


@pytest.mark.parametrize("leaves", [[1], [1, 2, 3]])
def test_a_wrong_number_of_leaves_is_refused(leaves: list[int]) -> None:
    with pytest.raises(ValueError, match="leaves"):
        tree_unflatten(leaves, tree_structure([0, 0]))


def test_tree_map_matches_several_trees_and_refuses_other_structures() -> None:
    assert tree_map(lambda a, b: a + b, {"x": [1], "y": 2}, {"y": 20, "x": [10]}) == {"x": [11], "y": 22}
    with pytest.raises(ValueError, match="expected"):
        tree_map(lambda a, b: a, [1, 2], [1])


def test_tree_map_only_picks_by_type_tuple_union_or_predicate() -> None:
    tree = [1, 2.0, "a", None]
    for chosen in (int | float, (int, float), lambda leaf: isinstance(leaf, (int, float))):
        assert tree_map_only(chosen, lambda leaf: leaf * 2, tree) == [2, 4.0, "a", None]
    assert tree_map_only(int, lambda leaf: leaf * 2, tree) == [2, 2.0, "a", None]


def test_tree_map_only_refuses_another_kind_of_selector() -> None:
    with pytest.raises(TypeError, match=r"tree_map_only: the first argument selects leaves\. Got 3\."):
        tree_map_only(3, lambda leaf: leaf, [1])  # type: ignore[arg-type]


def test_any_and_all_look_only_at_leaves_of_the_types() -> None:
    assert tree_any_only(int, lambda leaf: leaf > 1, [1, "a", [2]])
    assert not tree_any_only(str, lambda leaf: leaf == "b", [1, "a"])
    assert tree_all_only(int, lambda leaf: leaf > 0, [1, "a", [2]])
    assert not tree_any_only(float, lambda leaf: True, [1])
    assert tree_all_only(float, lambda leaf: False, [1])


LISTS: list[tuple[Any, bool, bool]] = [  # tree, leaf where a list holds tensors, leaf where it holds None too
    ([], False, False),
    ([1], False, False),
    ([1, None], True, False),
    ([None], True, False),
    ([1, "x"], True, True),
    ([[1]], True, True),
    (None, True, True),
    (1, True, True),
    ({"a": 1}, True, True),
    ((), False, False),
    (("x", None), False, False),
]


@pytest.mark.parametrize(("tree", "strict", "optional"), LISTS, ids=repr)
def test_leaf_tests_for_lists_follow_torch(tree: Any, strict: bool, optional: bool) -> None:
    assert leaf_unless_list_of(int)(tree) is strict
    assert leaf_unless_list_of(int, or_none=True)(tree) is optional


def test_specs_pickle() -> None:
    spec = tree_structure({"b": [1], "a": (2,)})
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_the_public_names_are_there() -> None:
    assert pytree.TreeSpec is optree.PyTreeSpec


@pytest.mark.parametrize("function", [tree_any_only, tree_all_only])
@pytest.mark.parametrize("types", [range(3), (int, 1), "int"])
def test_what_selects_no_types_is_refused(function, types):
    with pytest.raises(ArgumentTypeError, match=f"{function.__name__}: the first argument selects leaves"):
        function(types, bool, [1, "a"])


def test_an_error_of_the_leaf_test_is_the_callers():
    with pytest.raises(TypeError, match="mine"):
        tree_any_only(int, bool, [1], is_leaf=fail)


def fail(_):
    raise TypeError("mine")
