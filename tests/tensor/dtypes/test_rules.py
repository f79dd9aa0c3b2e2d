"""Dtypes: what is asked for is given or refused, and nothing loses values silently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import DtypeError
from oplib.tensor import (
    get_default_dtype,
    normalize_dtype,
    scalar_dtype,
    set_default_dtype,
    tensor,
    upcalls,
    zeros,
)
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import holds_numbers


@pytest.fixture
def default_dtype(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For tests that change it and call no ops: what is compiled is not thrown away, as it else would be."""
    monkeypatch.delitem(vars(upcalls), "refresh")
    before = get_default_dtype()
    yield
    set_default_dtype(before)


@pytest.mark.parametrize("name", dtypes.__all__)
def test_every_name_is_a_dtype_object_and_that_of_torch(name: str) -> None:
    found = getattr(dtypes, name)
    if name == "dtype":
        assert isinstance(dtypes.float32, found)
        return
    assert isinstance(found, dtypes.dtype)
    torch = pytest.importorskip("torch")
    assert str(getattr(torch, name)) == f"torch.{found.name}"


@pytest.mark.parametrize("spelling", ["float32", np.float32, jnp.float32, np.dtype("float32"), dtypes.float])
def test_a_dtype_has_many_spellings(spelling: Any) -> None:
    assert normalize_dtype(spelling) is dtypes.float32


@pytest.mark.parametrize("spelling", ["float31", None, object(), "U3", np.dtype("O"), [("a", "f4")], "g"])
def test_what_names_no_dtype_is_refused(spelling: Any) -> None:
    with pytest.raises(DtypeError, match=r"no tensor has this dtype\. Got .* Use one of bfloat16, bool, "):
        normalize_dtype(spelling)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("float64", "float32"), ("int64", "int32"), ("uint64", "uint32"), ("complex128", "complex64")],
)
def test_an_explicit_64_bit_dtype_needs_x64(wide: str, narrow: str) -> None:
    with pytest.raises(DtypeError, match=rf"{wide} was asked for .* x64 is off.*oplib\.{narrow}.*jax_enable"):
        zeros(2, dtype=wide)
    with pytest.raises(DtypeError, match="was asked for"):  # numpy holds this object equal to Python's float
        zeros(2, dtype=getattr(dtypes, wide))
    with jax.enable_x64(True):
        assert zeros(2, dtype=wide).dtype == wide


def test_python_types_are_the_widest_that_can_be_had() -> None:
    assert [normalize_dtype(kind).name for kind in (bool, int, float, complex)] == [
        "bool",
        "int32",
        "float32",
        "complex64",
    ]
    with jax.enable_x64(True):
        assert [normalize_dtype(kind).name for kind in (int, float, complex)] == [
            "int64",
            "float64",
            "complex128",
        ]


def test_python_numbers_have_the_default_dtypes() -> None:
    assert [scalar_dtype(kind).name for kind in (bool, int, float, complex, np.float64)] == [
        "bool",
        "int32",
        "float32",
        "complex64",
        "float32",
    ]
    with pytest.raises(DtypeError, match=r"only numbers have one\. Got str"):
        scalar_dtype(str)


@pytest.mark.usefixtures("default_dtype")
def test_the_default_dtype_rules_floats_and_complex_numbers() -> None:
    set_default_dtype(dtypes.bfloat16)
    assert tensor(1.0).dtype == dtypes.bfloat16
    assert tensor(1j).dtype == dtypes.complex64
    with jax.enable_x64(True):
        set_default_dtype(dtypes.float64)
        assert zeros(2).dtype == dtypes.float64
        assert tensor(1j).dtype == dtypes.complex128


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64"])
def test_the_default_dtype_must_be_floating(dtype: str) -> None:
    with pytest.raises(DtypeError, match=rf"the default dtype is a floating one\. Got {dtype}"):
        set_default_dtype(dtype)


def test_a_float64_array_without_dtype_needs_x64() -> None:
    values = np.array([1.5, 2.5])
    with pytest.raises(DtypeError, match=r"a float64 array while .* is off.*f64\[2\].*dtype=oplib\.float32"):
        tensor(values)
    assert tensor(values, dtype=dtypes.float32).dtype == dtypes.float32
    with jax.enable_x64(True):
        assert tensor(values).dtype == dtypes.float64


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_without_dtype_are_checked_and_narrowed(dtype: Any) -> None:
    narrow = np.iinfo({np.int64: np.int32, np.uint64: np.uint32}[dtype])
    assert tensor(np.array([0, narrow.max], dtype)).dtype == narrow.dtype
    with pytest.raises(DtypeError, match=rf"do not fit {narrow.dtype}\. Got 0 to {int(narrow.max) + 1}"):
        tensor(np.array([0, int(narrow.max) + 1], dtype))
    with jax.enable_x64(True):
        assert tensor(np.array([1], dtype)).dtype == dtype


def test_python_integers_are_int64_with_x64_and_else_checked() -> None:
    assert tensor(2**31 - 1).dtype == dtypes.int32
    for data in (2**31, [1, 2**31], -(2**31) - 1):
        with pytest.raises(DtypeError, match="values do not fit int32"):
            tensor(data)
    with jax.enable_x64(True):
        assert tensor(2**31).dtype == dtypes.int64
        with pytest.raises(DtypeError, match="values do not fit int64"):
            tensor(2**63)
        with pytest.raises(DtypeError, match="not made of numbers that fit a dtype"):
            tensor(2**64)


@pytest.mark.parametrize("kind", [[("a", "f4")], "V4", "U1", "S1", object, "datetime64[s]", "timedelta64[s]"])
def test_an_array_that_holds_no_numbers_is_no_tensor(kind: Any) -> None:
    assert not holds_numbers(np.dtype(kind))
    with pytest.raises(DtypeError, match="no tensor has the dtype of this array"):
        tensor(np.zeros(2, kind))


@pytest.mark.parametrize("kind", ["bool", "uint8", "float16", "bfloat16", "float8_e4m3fn", "complex64"])
def test_an_array_of_numbers_keeps_its_dtype(kind: str) -> None:
    array = np.ones(2, jnp.dtype(kind))
    assert holds_numbers(array.dtype)
    assert tensor(array).dtype == array.dtype
