"""The structure of results: conversion to flat arrays, and back."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import pytest

from oplib.errors import ResultError
from oplib.library.arguments.structure import Structure, make_structure, pack


class Box:
    """Stands for an array."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


A, B, C = Box("a"), Box("b"), Box("c")


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Kept:
    array: Any
    size: Any = dataclasses.field(metadata={"static": True})


def split(*values: Any, written: int = 0) -> tuple[Structure, list[Any]]:
    read = lambda value: value if isinstance(value, Box) else None  # noqa: E731
    return make_structure(values, written, read, subject="ns::op: the kernel")


CASES = [
    *((A,), (A, B), ([A, None, B], 3), ((A,),), ((A, None), [], 2.5), (None, A), ([],)),
    *(({"a": A, "b": (B, [None, C])},), (Pair(A, {"n": 2}), B), ({},), (Kept(A, 3),)),
]


@pytest.mark.parametrize("values", CASES, ids=str)
def test_rebuilding_gives_the_results_back(values: tuple[Any, ...]) -> None:
    structure, flat = split(*values)
    assert all(isinstance(value, Box) for value in flat)
    assert structure.rebuild(flat) == list(values)


@pytest.mark.parametrize(
    ("values", "arranged"),
    [((A,), A), ((A, B), (A, B)), ((), None), (([A],), [A]), ((3, A), (3, A))],
    ids=str,
)
def test_results_are_arranged_as_the_op_returns_them(values: tuple[Any, ...], arranged: Any) -> None:
    structure, flat = split(*values)
    assert structure.arrange(flat) == arranged == pack(values)


def test_written_arguments_come_first_and_are_no_returns() -> None:
    structure, flat = split([A, None], B, C, written=2)
    assert flat == [A, B, C]
    assert structure.written_count == 2
    assert structure.arrange_returns(flat) is C
    assert structure.without_written().arrange(flat[2:]) is C
    assert structure.without_written().written == 0


def test_gradients_are_arranged_by_declared_return_with_none_for_numbers() -> None:
    structure, _ = split(A, [B, C], 2, written=1)
    assert structure.rebuild_grads(["da", "db", None]) == [["db", None], None]


@pytest.mark.parametrize(
    "other",
    [
        *(split(A, B), split([A]), split((A,)), split(A, 1), split(A, written=1), split(None)),
        *(split({"a": A}), split(Kept(A, 1))),
    ],
    ids=lambda case: str(case[0].entries),
)
def test_structures_differ_by_their_entries(other: tuple[Structure, list[Any]]) -> None:
    assert split(A)[0] != other[0]


def test_numbers_are_distinguished_by_type() -> None:
    assert split(A, 1)[0] != split(A, True)[0]
    assert split(A, 1)[0] != split(A, 1.0)[0]


def test_structures_of_other_arrays_are_equal_and_hash_alike() -> None:
    assert split(A, [B])[0] == split(C, [A])[0]
    assert hash(split(A, [B])[0]) == hash(split(C, [A])[0])


def test_gradients_of_trees_have_none_for_static_leaves() -> None:
    structure, _ = split({"a": A, "n": 2}, Pair([B], None))
    assert structure.rebuild_grads(["da", "db"]) == [{"a": "da", "n": None}, Pair(["db"], None)]


@pytest.mark.parametrize("size", [1, 2])
def test_static_parts_of_a_class_belong_to_the_structure(size: int) -> None:
    assert (split(Kept(A, 1))[0] == split(Kept(A, size))[0]) == (size == 1)


def test_values_for_the_arrays_may_stand_for_a_part_of_the_tree() -> None:
    structure, _ = split({"a": A, "b": (B, [C, 3])}, C)
    is_int = lambda value: isinstance(value, int)  # noqa: E731
    assert structure.spread([{"a": 1, "b": (2, [3, "any"])}, 4], is_int) == [1, 2, 3, 4]
    assert structure.spread([{"a": 1, "b": 2}, 4], is_int) == [1, 2, 2, 4]
    assert structure.spread([5, 4], is_int) == [5, 5, 5, 4]
    with pytest.raises(ValueError, match=r"Expected PyTreeDef\(\(\*, \[\*, \*\]\)\), got PyTreeDef\(\*\)"):
        structure.spread([{"a": 1, "b": "no tuple"}, 4], is_int)


def test_a_structure_shows_its_containers() -> None:
    assert repr(split({"a": A, "b": (B, 3)})[0]) == "{'a': *, 'b': (*, 3)}"


class Hidden:
    """Neither a pytree nor a value."""


@dataclasses.dataclass
class Unregistered:
    array: Any


@pytest.mark.parametrize("leaf", [Hidden(), Unregistered(A)])
def test_an_object_that_is_no_pytree_is_refused(leaf: Any) -> None:
    with pytest.raises(ResultError, match=rf"ns::op: the kernel returned .* of type {type(leaf).__name__}, .*"
                       "Register the class"):  # fmt: skip
        split({"a": A, "b": leaf})


def test_it_leaves_a_jitted_function_beside_the_arrays() -> None:
    structure, _ = split(A, [B, None], 3)
    found, doubled = jax.jit(lambda x: (structure, x * 2))(1.0)
    assert found is structure
    assert doubled == 2.0


def test_only_results_that_are_all_arrays_are_plain() -> None:
    assert split(A, B)[0].is_plain
    assert not any(split(*values)[0].is_plain for values in [(A, 1), ([A],), (A, None)])
