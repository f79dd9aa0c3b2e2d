"""Names of torch's tensor classes."""

from __future__ import annotations

import jax
import pytest

import oplib
from oplib.errors import ArgumentValueError
from oplib.tensor.dtypes.class_names import name_class, read_class
from oplib.tensor.dtypes.rules import SUPPORTED


def test_each_dtype_has_torchs_name() -> None:
    torch = pytest.importorskip("torch")
    for dtype in SUPPORTED:
        theirs = torch.zeros(1).to(getattr(torch, dtype.name)).type()
        assert name_class(dtype, "cpu") == theirs.replace("torch.", "oplib.")


def test_a_name_reads_back() -> None:
    for dtype in SUPPORTED:
        for place in ("cpu", "cuda", "tpu"):
            assert read_class(name_class(dtype, place)) == (dtype, place)


def test_a_name_of_nothing_is_refused() -> None:
    for name in ("float", "FloatTensor", "numpy.FloatTensor", "oplib.", "oplib.a.b.FloatTensor.x", ""):
        with pytest.raises(ArgumentValueError, match="type: invalid type"):
            read_class(name)


def test_a_traced_tensor_has_the_name_of_its_dtype() -> None:
    names = []

    @jax.jit
    def function(array: jax.Array) -> jax.Array:
        x = oplib.Tensor.from_array(array)
        names.append(x.type())
        return x.type("oplib.IntTensor").array

    assert function(oplib.ones(1).array).dtype == oplib.int32
    assert names == ["oplib.FloatTensor"]
