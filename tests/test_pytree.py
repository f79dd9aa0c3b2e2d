"""Trees: torch's conventions on top of optree."""

from __future__ import annotations

import dataclasses
import pickle
from collections import OrderedDict
from typing import Any, NamedTuple

import jax
import optree
import pytest

import oplib
from oplib import pytree
from oplib.pytree import (
    leaf_unless_list_of,
    register_pytree_node,
    tree_all_only,
    tree_any_only,
    tree_flatten,
    tree_flatten_dataclasses,
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


@dataclasses.dataclass
class Batch:
    images: Any
    labels: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    inner: Any
    number: int = dataclasses.field(init=False, default=7)

    def __post_init__(self) -> None:
        if not isinstance(self.inner, (int, Batch)):
            raise TypeError(self.inner)


def test_plain_dataclasses_are_nodes_where_asked() -> None:
    tree = {"batch": Batch(1, [2]), "other": 3}
    leaves, spec = tree_flatten_dataclasses(tree)
    assert leaves == [1, 2, 3]
    assert tree_unflatten(leaves, spec) == tree
    assert tree_leaves(tree) == [Batch(1, [2]), 3]


def test_a_nested_frozen_dataclass_is_rebuilt_without_its_checks() -> None:
    leaves, spec = tree_flatten_dataclasses(Frozen(Batch(1, 2)))
    assert leaves == [1, 2, 7]
    rebuilt = tree_unflatten([object(), object(), object()], spec)
    assert type(rebuilt) is Frozen
    assert type(rebuilt.inner) is Batch


class ModelOutput(OrderedDict):
    """The bases of the results of transformers: each value is a field and an item."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if (value := getattr(self, field.name)) is not None:
                self[field.name] = value

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else tuple(self.values())[key]

    def __setitem__(self, key, value) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __delitem__(self, *args) -> None:
        raise AttributeError("refused")


@dataclasses.dataclass
class LogitsAndStates(ModelOutput):
    logits: object
    loss: object = None
    states: object = None


def test_a_dataclass_that_is_a_dictionary_keeps_fields_and_items() -> None:
    tree = LogitsAndStates(1, states=(2, [3]))
    leaves, spec = tree_flatten_dataclasses((tree, 4))
    assert leaves == [1, None, 2, 3, 4]
    made, _ = tree_unflatten([10, None, 20, 30, 40], spec)
    assert type(made) is LogitsAndStates
    assert list(made.items()) == [("logits", 10), ("states", (20, [30]))]
    assert (made.logits, made.loss, made.states) == (10, None, (20, [30]))
    assert made["states"] is made.states
    assert tree_flatten_dataclasses((made, 4))[1] == spec
    assert tree_flatten_dataclasses((LogitsAndStates(1), 4))[1] != spec


def test_items_that_are_no_fields_are_children_too() -> None:
    tree = LogitsAndStates(1)
    OrderedDict.__setitem__(tree, "more", 5)
    OrderedDict.__setitem__(tree, "logits", 6)
    leaves, spec = tree_flatten_dataclasses(tree)
    assert leaves == [1, None, None, 6, 5]
    made = tree_unflatten(leaves, spec)
    assert (made.logits, dict(made.items())) == (1, {"logits": 6, "more": 5})


def test_a_dataclass_that_cannot_be_made_without_a_call_is_a_leaf() -> None:
    @dataclasses.dataclass
    class Numbers(list):
        scale: int

    numbers = Numbers(1)
    assert tree_flatten_dataclasses([numbers])[0] == [numbers]


def test_a_dataclass_type_and_one_that_is_leaf_stay_whole() -> None:
    assert tree_flatten_dataclasses([Batch])[0] == [Batch]
    batch = Batch(1, 2)
    assert tree_flatten_dataclasses([batch], is_leaf=lambda tree: tree is batch)[0] == [batch]


def test_a_field_that_was_never_set_stays_unset() -> None:
    batch = Batch(1, 2)
    del batch.images
    leaves, spec = tree_flatten_dataclasses(batch)
    assert leaves == [2]
    assert not hasattr(tree_unflatten(leaves, spec), "images")


def test_nodes_of_jax_are_nodes_where_asked() -> None:
    class Pair:
        def __init__(self, first: Any, tag: str) -> None:
            self.first, self.tag = first, tag

    jax.tree_util.register_pytree_node(
        Pair, lambda one: ((one.first,), one.tag), lambda tag, c: Pair(c[0], tag)
    )
    pair = Pair([1, None], "a")
    leaves, spec = tree_flatten_dataclasses((pair, None))
    assert leaves == [1, None, None]
    rebuilt = tree_unflatten([2, 3, None], spec)[0]
    assert (rebuilt.first, rebuilt.tag) == ([2, 3], "a")
    assert spec != tree_flatten_dataclasses((Pair([1, None], "b"), None))[1]
    assert tree_flatten([pair])[0] == [pair]
    assert tree_flatten_dataclasses([pair], is_leaf=lambda tree: tree is pair)[0] == [pair]
    tensor = oplib.ones(2)
    assert tree_flatten_dataclasses([tensor, Pair])[0] == [tensor, Pair]


def test_registering_a_dataclass_that_was_seen_before_replaces_its_fields() -> None:
    @dataclasses.dataclass
    class Late:
        x: int
        y: int

    assert tree_flatten_dataclasses(Late(1, 2))[0] == [1, 2]
    register_pytree_node(Late, lambda late: ([late.y], late.x), lambda children, x: Late(x, *children))
    assert tree_flatten_dataclasses(Late(1, 2))[0] == [2]
    assert tree_leaves(Late(1, 2)) == [2]


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
