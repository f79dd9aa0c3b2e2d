"""The types of the schema language: what two of them are equal in, and the text of values."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

from oplib.library.schema.types import (
    OPTIONAL_TENSOR,
    TENSOR,
    AliasInfo,
    BaseType,
    EnumDefault,
    ListType,
    OptionalType,
    SchemaType,
    TupleType,
    has_tensor,
    is_int64,
    is_tensorlist_like_type,
    print_type,
    print_value,
)

INT = BaseType("int")
MARK = AliasInfo(is_write=True, before_set=frozenset("a"))


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        (BaseType("int", (1, 2)), INT),
        (BaseType("Any", container=dict), BaseType("Any")),
        (ListType(INT, is_tuple=True), ListType(INT)),
    ],
)
def test_what_only_annotations_tell_counts_for_neither_equality_nor_text(
    told: SchemaType, plain: SchemaType
) -> None:
    assert told == plain
    assert hash(told) == hash(plain)
    assert repr(told) == repr(plain)
    assert str(told) == str(plain)


@pytest.mark.parametrize(
    "type_", [OptionalType(INT), ListType(INT), ListType(INT, 2), TupleType((INT,)), TENSOR]
)
def test_types_of_other_spellings_differ(type_: SchemaType) -> None:
    others = [OptionalType(INT), ListType(INT), ListType(INT, 2), TupleType((INT,)), TENSOR]
    assert [other == type_ for other in others].count(True) == 1


@pytest.mark.parametrize(
    ("number", "fits"),
    [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False), (0, True)],
)
def test_an_int_has_64_bits(number: int, fits: bool) -> None:
    assert is_int64(number) is fits


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2, "2"),
        (2.0, "2."),
        (True, "True"),
        (None, "None"),
        (1 - 2j, "1.-2.j"),
        (1 + 2j, "1.+2.j"),
        (Color.RED, "Color.RED"),
        (EnumDefault("Color.RED"), "Color.RED"),
        (np.dtype("int8"), "int8"),
        ('a"\\\n', '"a\\"\\\\\\n"'),
        (Color, '"Color"'),
        (b"a", '''"b'a'"'''),
    ],
)
def test_the_text_of_a_default(value: Any, text: str) -> None:
    assert print_value(value) == text


def test_a_whole_number_of_a_float_has_a_point() -> None:
    assert print_value(2, as_float=True) == "2."


def test_tensors_are_found_at_any_depth() -> None:
    types = [INT, TENSOR, OPTIONAL_TENSOR, ListType(OPTIONAL_TENSOR), TupleType((INT, ListType(TENSOR)))]
    assert [has_tensor(type_) for type_ in types] == [False, True, True, True, True]
    lists = [*types, OptionalType(ListType(TENSOR)), ListType(INT), OptionalType(TENSOR)]
    assert [is_tensorlist_like_type(type_) for type_ in lists] == [
        *[False] * 3,
        True,
        False,
        True,
        False,
        False,
    ]
    assert [type_.is_number for type_ in (INT, BaseType("Scalar"), TENSOR, ListType(INT))] == [
        *(True, True),
        *(False, False),
    ]


@pytest.mark.parametrize(
    ("type_", "alias", "text"),
    [
        (TENSOR, MARK, "Tensor(a!)"),
        (OPTIONAL_TENSOR, MARK, "Tensor(a!)?"),
        (
            ListType(TENSOR, 2),
            AliasInfo(is_write=False, before_set=frozenset(), elements=(MARK,)),
            "Tensor(a!)[2]",
        ),
        (ListType(TENSOR), AliasInfo(is_write=False, before_set=frozenset("ab")), "Tensor[](a|b)"),
        (
            TENSOR,
            AliasInfo(is_write=False, before_set=frozenset("a"), after_set=frozenset("*")),
            "Tensor(a -> *)",
        ),
        (
            TupleType((TENSOR, INT)),
            AliasInfo(is_write=False, before_set=frozenset(), elements=(MARK, None)),
            "(Tensor(a!), int)",
        ),
    ],
)
def test_a_mark_follows_the_type_that_it_marks(type_: SchemaType, alias: AliasInfo, text: str) -> None:
    assert print_type(type_, alias) == text
