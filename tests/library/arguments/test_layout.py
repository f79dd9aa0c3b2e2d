"""The static part of a call: which calls it distinguishes, and how the arguments are rebuilt."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

from oplib.errors import ArgumentError
from oplib.library.arguments.layout import (
    EntryKind,
    Fixed,
    Layout,
    copy_lists,
    count_arrays,
    freeze,
    make_layout,
    rebuild_tangent,
)
from oplib.library.schema import parse_schema

SCHEMA = parse_schema("t::f(Tensor x, Tensor[] ys, Tensor? z, int[] dims, *, float by=1.) -> Tensor")
A, B, C = "a", "b", "c"  # any objects can stand for arrays


class Color(enum.Enum):
    red = 1


def layout_of(*values: Any, operand: frozenset[str] = frozenset()) -> tuple[Layout, list[Any]]:
    return make_layout(SCHEMA, values, operand, op="t::f")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (0j, -0j),
        ([1], (1,)),
        ([1.0], [1]),
        ({"a": 1}, {"a": True}),
        (np.float32(1), np.float64(1)),
        (np.array([1, 2]), np.array([[1, 2]])),
        (Color.red, 1),
        ("1", 1),
        (frozenset({1}), frozenset({True})),
    ],
    ids=str,
)
def test_values_that_a_kernel_can_tell_apart_have_different_keys(one: object, other: object) -> None:
    assert freeze(one) != freeze(other)


@pytest.mark.parametrize(
    "make",
    [
        lambda: float("nan"),
        lambda: [1, (2.5, "a")],
        lambda: {"a": [1]},
        lambda: np.arange(3),
        lambda: Color.red,
        lambda: {1, 2},
        lambda: None,
    ],
)
def test_equal_values_have_one_key(make: Any) -> None:
    assert freeze(make()) == freeze(make())
    assert hash(freeze(make())) == hash(freeze(make()))


def test_a_value_that_cannot_be_hashed_is_refused_with_its_argument() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(ArgumentError, match=r"t::f: argument 'dims' is static but cannot be hashed. Got Unh"):
        layout_of(A, [], None, Unhashable(), 1.0)


def test_arrays_are_flat_in_the_order_of_the_schema() -> None:
    layout, flat = layout_of(A, [B, None, C], "z", [1, 2], 2.0)
    assert flat == [A, B, C, "z"]
    assert layout.array_count == 4
    assert layout.entries == (
        EntryKind.array,
        (True, False, True),
        EntryKind.array,
        Fixed([1, 2]),
        Fixed(2.0),
    )
    assert [count_arrays(entry) for entry in layout.entries] == [1, 2, 1, 0, 0]


def test_rebuilding_gives_the_values_back() -> None:
    values = [A, [B, None], None, [1, 2], 2.0]
    layout, flat = layout_of(*values)
    assert layout.rebuild(flat) == values
    assert layout.rebuild([1, 2]) == [1, [2, None], None, [1, 2], 2.0]


def test_tangents_and_flags_stand_where_the_arrays_do() -> None:
    layout, _ = layout_of(A, [B, None], None, [1], 2.0)
    assert layout.rebuild(["da", None], rebuild_tangent) == ["da", [None, None], None, None, None]
    assert layout.spread_facts([True, False]) == [True, [False, False], False, False, False]


def test_keyword_only_values_are_split_off() -> None:
    layout, flat = layout_of(A, [], None, [1], 2.0)
    assert layout.split(layout.rebuild(flat)) == ((A, [], None, [1]), {"by": 2.0})


@pytest.mark.parametrize(("position", "name"), [(0, "x"), (1, "ys"), (2, "ys"), (3, "z")])
def test_the_argument_of_a_flat_position_is_found(position: int, name: str) -> None:
    layout, _ = layout_of(A, [B, C], "z", [1], 2.0)
    assert layout.find_argument(position) == name


def test_an_operand_is_an_array_and_its_value_is_no_part_of_the_layout() -> None:
    layouts = [layout_of(A, [], None, [1], by, operand=frozenset({"by"}))[0] for by in (1.0, 2.0)]
    assert layouts[0] == layouts[1]
    assert layouts[0].entries[-1] is EntryKind.array


@pytest.mark.parametrize(
    "other",
    [
        (A, [B], None, [1], 1.0),
        (A, [None], None, [1], 1.0),
        (A, [], C, [1], 1.0),
        (A, [], None, [True], 1.0),
        (A, [], None, [1], 2.0),
    ],
)
def test_layouts_differ_with_structure_and_static_values(other: tuple[Any, ...]) -> None:
    layout, _ = layout_of(A, [], None, [1], 1.0)
    assert layout != layout_of(*other)[0]


def test_layouts_of_other_arrays_are_equal_and_hash_alike() -> None:
    one, other = layout_of(A, [B], None, [1], 1.0)[0], layout_of(C, [A], None, [1], 1.0)[0]
    assert one == other
    assert hash(one) == hash(other)


def test_a_rebuilt_list_may_be_changed_without_changing_the_layout() -> None:
    layout, flat = layout_of(A, [], None, [1, 2], 2.0)
    layout.rebuild(flat)[3].clear()
    assert layout.rebuild(flat)[3] == [1, 2]


def test_lists_are_copied_inside_others_too() -> None:
    inner = [1]
    copied = copy_lists(([inner], "a"))
    assert copied == ([[1]], "a")
    assert copied[0][0] is not inner


def test_written_indices_are_those_of_the_schema() -> None:
    schema = parse_schema("t::g(Tensor x, Tensor(a!) y, Tensor(b!)[] zs) -> ()")
    assert make_layout(schema, [A, B, [C]], frozenset(), op="t::g")[0].written_indices == [1, 2]
