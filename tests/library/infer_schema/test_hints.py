"""What one annotation means: the kind of a kernel, whether it is static, and advice for a mistake."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.library.infer_schema.hints import (
    UnsupportedHintError,
    find_hint_kind,
    is_static_hint,
    list_field_hints,
    read_hint,
    read_open_hint,
    read_result_hint,
)
from oplib.tensor import Tensor


class Mode(enum.Enum):
    NEAREST = 1


class Pair(NamedTuple):
    first: Tensor
    second: int


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (jax.typing.ArrayLike, "array"),
        (jax.Array, "array"),
        (np.ndarray[Any, np.dtype[np.float32]], "host"),
        (Tensor, "tensor"),
        (int, None),
        (list[jax.Array], None),
    ],
)
def test_the_kind_of_an_annotation_for_one_array(hint: Any, kind: str | None) -> None:
    assert find_hint_kind(hint) == kind


@pytest.mark.parametrize(
    ("hint", "is_static"),
    [
        (Annotated[int, "units"], True),
        (Annotated[Tensor, "units"], False),
        (Callable[[int], int], True),
        (Literal["a"], True),
        (type[int], True),
        (Mode, True),
        (np.float32, True),
        (complex, True),
        (tuple[int, ...], True),
        (tuple[int, Tensor], False),
        (dict[str, frozenset[int]], True),
        (dict[str, Any], False),
        (int | None, True),
        (int | Tensor, False),
        (tuple, False),
        (object, False),
        (Pair, False),
    ],
)
def test_an_annotation_is_static_if_no_value_can_hold_an_array(hint: Any, is_static: bool) -> None:
    assert is_static_hint(hint) is is_static
    if hint is not tuple:
        assert str(read_open_hint(hint)) in {"Any" if is_static else "Tree", "Enum", "str", "int?", "int[]"}


@pytest.mark.parametrize(
    ("hint", "advice"),
    [
        (list, "Say of what"),
        (tuple, "Say of what"),
        (jnp.array, "It is a function"),
        (len, "It is a function"),
    ],
)
def test_an_annotation_that_means_another_one_is_refused_with_advice(hint: Any, advice: str) -> None:
    for read in (read_hint, read_open_hint):
        with pytest.raises(UnsupportedHintError, match=advice):
            read(hint)


def test_a_class_of_torch_is_refused_and_one_of_the_same_name_is_not() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UnsupportedHintError, match=r"Write jax\.Array"):
        read_open_hint(torch.Tensor)
    with pytest.raises(UnsupportedHintError, match=r"Write jax\.Array"):
        read_result_hint(torch.Tensor)
    assert str(read_open_hint(type("Tensor", (), {}))) == "Tree"
    assert str(read_open_hint(torch.Size)) == "Tree"


def test_code_gets_a_tuple_where_its_annotation_says_so() -> None:
    hints: list[Any] = [list[int], Sequence[int], tuple[int, ...]]
    types: list[Any] = list(map(read_hint, hints))
    assert [type_.is_tuple for type_ in types] == [False, False, True]


def test_a_result_may_be_a_bare_container() -> None:
    assert read_result_hint(list).container is list  # pyright: ignore[reportAttributeAccessIssue]
    assert read_result_hint(object).container is None  # pyright: ignore[reportAttributeAccessIssue]


def test_the_fields_of_a_class_have_annotations() -> None:
    assert list_field_hints(Pair) == [Tensor, int]
    assert list_field_hints(Mode) == []
    assert list_field_hints(list[int]) == []
