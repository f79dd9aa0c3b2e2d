"""Numbers that are written through a chain: from their second use on they are kept on the device."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.tensor.views.chain import number_to_array

NUMBERS = (0.0, -0.0, 1.5, math.nan, math.inf)


def list_signs(tensor: Any) -> list[Any]:
    return [(str(one), math.copysign(1, one)) for one in tensor.tolist()]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_number_is_stored_as_it_is_however_often(dtype: str) -> None:
    x = oplib.zeros(len(NUMBERS), dtype=getattr(oplib, dtype))
    for _ in range(4):
        for place, number in enumerate(NUMBERS):
            x[place] = number
        assert list_signs(x) == list_signs(np.asarray(NUMBERS))


def test_equal_numbers_of_other_dtypes_stay_apart() -> None:
    for _ in range(4):
        for dtype in (oplib.bool, oplib.int8, oplib.uint8, oplib.int32, oplib.float32, oplib.complex64):
            x = oplib.zeros(2, dtype=dtype)
            x[0] = 1
            assert x.dtype == dtype
            assert x.tolist() == [1, 0]


def test_a_number_is_kept_on_the_device_from_its_second_use_on() -> None:
    number = np.asarray(0.12345, np.float32)
    first, second, third = (number_to_array(number) for _ in range(3))
    assert first is number
    assert isinstance(second, jax.Array)
    assert second is third


def test_no_number_of_a_trace_is_kept() -> None:
    number = np.asarray(0.54321, np.float32)

    def store(y: Any) -> Any:
        x = oplib.Tensor.from_array(y)
        for _ in range(3):
            x[0] = 0.54321
            number_to_array(number)
        return x.array

    with jax.checking_leaks():
        stored = jax.jit(store)(jnp.zeros(2))
    assert stored.tolist() == [number, 0.0]
    x = oplib.zeros(2)
    x[0] = 0.54321
    assert x.tolist() == [number, 0.0]


def test_a_wide_number_is_kept_only_while_64_bits_are_on() -> None:
    number = np.asarray(1 + 2**-40)
    for _ in range(3):
        assert number_to_array(number) is number
    with jax.enable_x64(True):
        for _ in range(3):
            x = oplib.zeros(2, dtype=oplib.float64)
            x[0] = 1 + 2**-40
            assert x.tolist() == [1 + 2**-40, 0.0]
