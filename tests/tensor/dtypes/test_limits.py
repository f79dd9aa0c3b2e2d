"""The limits of dtypes, beside numpy's."""

import numpy as np
import pytest

import oplib
from oplib.errors import DtypeError


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_floating_limits_are_numpys_as_python_numbers(dtype):
    ours, its = oplib.finfo(getattr(oplib, dtype)), np.finfo(dtype)
    for name in ("bits", "eps", "max", "min", "tiny", "resolution"):
        assert getattr(ours, name) == pytest.approx(float(getattr(its, name)), rel=1e-6)
        assert type(getattr(ours, name)) in (int, float)
    assert (ours.dtype, ours.smallest_normal) == (its.dtype.name, ours.tiny)


def test_without_a_dtype_the_limits_are_those_of_the_default_dtype():
    assert repr(oplib.finfo()) == repr(oplib.finfo("float32"))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_limits_of_integers_are_numpys(dtype):
    ours, its = oplib.iinfo(getattr(oplib, dtype)), np.iinfo(dtype)
    assert (ours.dtype, ours.bits, ours.min, ours.max) == (dtype, its.bits, its.min, its.max)


def test_each_kind_of_limits_is_for_its_kind_of_dtype():
    with pytest.raises(DtypeError, match=r"finfo: .* Got int32\. Use oplib\.iinfo"):
        oplib.finfo(oplib.int32)
    with pytest.raises(DtypeError, match=r"iinfo: .* Got bool\. Use oplib\.finfo"):
        oplib.iinfo(oplib.bool)
