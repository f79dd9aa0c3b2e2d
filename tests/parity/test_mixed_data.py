"""The dtype of ``tensor([...])``: that of all items, in any order, as torch promotes them."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import oplib
from oplib.errors import DtypeError

ITEMS: dict[str, Any] = {
    "bool": lambda lib: True,
    "int": lambda lib: 2,
    "float": lambda lib: 2.5,
    "complex": lambda lib: 2j,
    "loss": lambda lib: lib.tensor(1.5),
    "bfloat16": lambda lib: lib.tensor(1.5, dtype=lib.bfloat16),
    "float16": lambda lib: lib.tensor(1.5, dtype=lib.float16),
    "float64": lambda lib: lib.tensor(0.1, dtype=lib.float64),
    "int8": lambda lib: lib.tensor(3, dtype=lib.int8),
    "uint8": lambda lib: lib.tensor(3, dtype=lib.uint8),
    "complex64": lambda lib: lib.tensor(1j, dtype=lib.complex64),
    "numpy int8": lambda lib: np.int8(3),
    "numpy int64": lambda lib: np.int64(3),
    "numpy float16": lambda lib: np.float16(1.5),
    "numpy float32": lambda lib: np.float32(1.5),
    "numpy float64": lambda lib: np.float64(0.1),
}


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(("first", "second"), list(itertools.product(ITEMS, ITEMS)))
def test_items_are_promoted_in_either_order(first: str, second: str) -> None:
    want = torch.tensor([ITEMS[first](torch), ITEMS[second](torch)])
    got = oplib.tensor([ITEMS[first](oplib), ITEMS[second](oplib)])
    assert str(want.dtype) == f"torch.{got.dtype.name}"
    assert got.tolist() == want.tolist()
    nested = oplib.tensor([[ITEMS[first](oplib)], [ITEMS[second](oplib)]])
    assert nested.dtype == got.dtype


def test_a_loss_beside_numbers_needs_no_64_bits() -> None:
    for data in ([oplib.tensor(1.5), 2], [2, oplib.tensor(1.5)], [np.float32(1), 2.5], [jnp.float32(1), 2]):
        assert oplib.tensor(data).dtype == oplib.float32
    assert oplib.tensor([oplib.tensor([1.0, 2.0]), [1, 2.5]]).dtype == oplib.float32
    assert oplib.tensor([[1, 2], oplib.tensor([1.0, 2.0], dtype=oplib.bfloat16)]).dtype == oplib.bfloat16
    assert oplib.tensor([np.int64(2), 3]).dtype == oplib.tensor(3).dtype


def test_a_float64_is_refused_wherever_it_stands() -> None:
    for data in ([2.0, np.float64(0.1)], [np.float64(0.1), 2.0], [[2.0], [np.float64(0.1)]]):
        with pytest.raises(DtypeError, match="a float64 array while JAX's x64 is off"):
            oplib.tensor(data)
        assert oplib.tensor(data, dtype=oplib.float32).dtype == oplib.float32


def test_the_same_in_a_program() -> None:
    step = oplib.jit(lambda x: oplib.tensor([x, 2, np.float32(1)]))
    assert step(oplib.tensor(1.5)).dtype == oplib.float32


def test_sequences_of_python_have_default_dtypes() -> None:
    assert oplib.tensor([range(2), range(2)]).dtype == oplib.tensor(1).dtype
    assert oplib.tensor([]).dtype == oplib.tensor([[], []]).dtype == oplib.float32
    with pytest.raises(DtypeError, match="not made of numbers"):
        oplib.tensor([oplib.tensor(1.0, dtype=oplib.bfloat16), "a"])
    with pytest.raises(DtypeError, match="not made of numbers"):
        oplib.tensor([None, 2])
