"""Dataclasses and nodes of JAX as nodes of trees."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import Any

import jax

import oplib
from oplib.pytree import (
    tree_flatten,
    tree_flatten_dataclasses,
    tree_leaves,
    tree_unflatten,
)


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
