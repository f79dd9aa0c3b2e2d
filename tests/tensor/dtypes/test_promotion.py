"""Promotion is torch's, with two differences."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest

from oplib.errors import DtypeError
from oplib.tensor import can_cast, promote_types, result_dtype, result_type
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import FLOAT8, SUPPORTED

NAMES = sorted(dtype.name for dtype in SUPPORTED)
TENSOR_NAMES = sorted(dtype.name for dtype in SUPPORTED - FLOAT8)  # torch cannot mix float8 with anything


def outcome(function: Any, *args: Any) -> str:
    """Returns the name of a dtype, or that there is none; torch's complex32 is complex64 here."""
    try:
        name = str(function(*args)).removeprefix("torch.")
    except (RuntimeError, DtypeError):
        return "refused"
    return "complex64" if name == "complex32" else name


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("bool", "bool", "bool"),
        ("bool", "uint8", "uint8"),
        ("uint8", "int8", "int16"),
        ("int8", "int32", "int32"),
        ("int32", "float16", "float16"),
        ("float16", "bfloat16", "float32"),
        ("bfloat16", "float32", "float32"),
        ("float32", "complex64", "complex64"),
        ("float64", "complex64", "complex128"),
        ("uint32", "float32", "float32"),
    ],
)
def test_two_dtypes_have_a_common_one(first: str, second: str, expected: str) -> None:
    assert promote_types(first, second) == promote_types(second, first) == expected


@pytest.mark.parametrize("pair", [("uint16", "int32"), ("uint32", "bool"), ("float8_e5m2", "float32")])
def test_what_torch_does_not_promote_is_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(DtypeError, match=rf"no common dtype. Got {pair[0]} and {pair[1]}\. Convert one"):
        promote_types(*pair)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ((["int8"], ["int32"], []), "int8"),
        ((["int8"], ["float16"], []), "float16"),
        ((["float16"], ["float32"], []), "float16"),
        ((["float16"], [], ["complex64"]), "complex64"),
        ((["bool"], [], ["int32"]), "int32"),
        (([], ["int8"], ["int32"]), "int8"),
        (([], [], ["int32", "float32"]), "float32"),
        ((["int8", "float32"], ["float64"], []), "float32"),
        ((["float64"], [], ["complex64"]), "complex128"),
    ],
)
def test_a_lower_rank_counts_only_by_its_kind(ranks: tuple[list[str], ...], expected: str) -> None:
    assert result_dtype(*(tuple(getattr(dtypes, name) for name in rank) for rank in ranks)) == expected


def test_python_integers_bring_int32_without_x64_and_int64_with_it() -> None:
    flags = np.ones(3, bool)
    assert result_type(flags, 1) == dtypes.int32
    with jax.enable_x64(True):
        assert result_type(flags, 1) == dtypes.int64


def test_scalars_of_numpy_count_as_python_numbers() -> None:
    assert result_type(np.ones(3, np.float32), np.float64(1)) == dtypes.float32
    assert result_type(np.ones(3, np.int8), np.int32(1)) == dtypes.int8


@pytest.mark.parametrize("operand", ["text", None, [1]])
def test_an_operand_without_a_dtype_is_refused(operand: Any) -> None:
    with pytest.raises(DtypeError, match=f"this operand has no dtype. Got {type(operand).__name__}"):
        result_type(operand)


def test_nothing_cannot_be_promoted() -> None:
    with pytest.raises(DtypeError, match="Got no operand"):
        result_type()


def test_every_pair_of_dtypes_promotes_and_casts_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    for first, second in itertools.product(NAMES, NAMES):
        theirs = getattr(torch, first), getattr(torch, second)
        assert outcome(promote_types, first, second) == outcome(torch.promote_types, *theirs), (first, second)
        assert can_cast(first, second) == torch.can_cast(*theirs), (first, second)


def test_every_pair_of_operands_has_the_result_type_of_torch() -> None:
    torch = pytest.importorskip("torch")
    shapes: list[tuple[int, ...]] = [(), (2,)]
    with jax.enable_x64(True):
        for names, ranks in itertools.product(
            itertools.product(TENSOR_NAMES, repeat=2), itertools.product(shapes, repeat=2)
        ):
            pairs = list(zip(names, ranks, strict=True))
            theirs = [torch.zeros(shape, dtype=getattr(torch, name)) for name, shape in pairs]
            ours = [np.zeros(shape, getattr(dtypes, name)) for name, shape in pairs]
            assert outcome(result_type, *ours) == outcome(torch.result_type, *theirs), pairs


def test_every_operand_with_a_python_number_has_the_result_type_of_torch() -> None:
    torch = pytest.importorskip("torch")
    with jax.enable_x64(True):
        for name, number, shape in itertools.product(NAMES, (True, 1, 1.0, 1j), [(), (2,)]):
            theirs = outcome(torch.result_type, torch.zeros(shape, dtype=getattr(torch, name)), number)
            assert outcome(result_type, np.zeros(shape, getattr(dtypes, name)), number) == theirs, (
                name,
                number,
            )
