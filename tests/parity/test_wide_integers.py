"""Python integers beyond 32 bits, which torch has and JAX has not while x64 is off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest

import oplib
from oplib.errors import ArgumentOverflowError

torch = pytest.importorskip("torch")
Program = Callable[[Any], Any]
WIDE = 2**40


def ints(lib: Any) -> Any:
    return lib.tensor([[1, -5], [2**31 - 1, -(2**31)]])


SAME: dict[str, Program] = {
    **{
        f"{name}, {number:+}": lambda lib, name=name, number=number: getattr(lib, name)(ints(lib), number)
        for name in ("lt", "le", "gt", "ge", "eq", "ne")
        for number in (WIDE, -WIDE, 2**31, -(2**31) - 1)
    },
    "by the operator": lambda lib: ints(lib) < WIDE,
    "by the operator, turned": lambda lib: WIDE > ints(lib),  # noqa: SIM300  that is what is asked
    "of bools": lambda lib: lib.tensor([True, False]) >= -WIDE,
    "of int8": lambda lib: lib.tensor([3], dtype=lib.int8) != WIDE,
    "of floats": lambda lib: lib.tensor([1.0, 2.0**41]) < WIDE,
    "division": lambda lib: ints(lib) / WIDE,
    "division, turned": lambda lib: WIDE / ints(lib),
    "beside floats": lambda lib: lib.tensor([1.0]) * WIDE,
}
BEYOND: dict[str, Program] = {
    "add": lambda lib: lib.tensor([1]) + 2**70,
    "add to floats": lambda lib: lib.tensor([1.0]) + 2**70,
    "eq": lambda lib: lib.tensor([1]) == 2**70,
    "div": lambda lib: lib.tensor([1]) / 2**70,
    "lt in floats": lambda lib: lib.tensor([1.0]) < -(2**70),
}
NEEDED: dict[str, Program] = {
    "add": lambda lib: ints(lib) + WIDE,
    "rsub": lambda lib: WIDE - ints(lib),
    "add_": lambda lib: ints(lib).add_(WIDE),
    "mul": lambda lib: ints(lib) * -WIDE,
    "scaled": lambda lib: lib.add(ints(lib), 1, alpha=WIDE),
    "floor_divide": lambda lib: WIDE // ints(lib),
    "pow": lambda lib: lib.tensor([1]) ** WIDE,
    "clamp": lambda lib: ints(lib).clamp(max=WIDE),
    "where": lambda lib: lib.where(ints(lib) > 0, WIDE, ints(lib)),
    "fill_": lambda lib: ints(lib).fill_(WIDE),
    "masked_fill": lambda lib: ints(lib).masked_fill(ints(lib) > 0, WIDE),
    "index_fill": lambda lib: ints(lib).index_fill(0, lib.tensor([0]), WIDE),
    "scatter": lambda lib: ints(lib).scatter(0, lib.tensor([[0]]), WIDE),
    "an item": lambda lib: put(lib, "int64" if jax.enable_x64.value else "int32", WIDE),
    "unsigned": lambda lib: lib.tensor([1], dtype=lib.uint32) == 2**31 + 5,
}


def put(lib: Any, dtype: str, value: Any, index: Any = 0) -> Any:
    x = lib.zeros(2, dtype=getattr(lib, dtype))
    x[index] = value
    return x


STORED: dict[str, Program] = {
    **{
        f"{value} as {dtype}": lambda lib, dtype=dtype, value=value: put(lib, dtype, value)
        for dtype, value in [
            *(("uint8", one) for one in (255, 256, -1, -255, -256, 255.5, True)),
            *(("int8", one) for one in (127, 128, -128, -129, 127.5)),
            *(("float16", one) for one in (65504, 65536.0, float("inf"), float("nan"), -1e6)),
            *(("float32", one) for one in (1e38, 1e39)),
            ("bool", 300),
            ("int32", 2**31),
        ]
    },
    "at places": lambda lib: put(lib, "uint8", 300, lib.tensor([0])),
    "under a mask": lambda lib: put(lib, "uint8", 300, lib.tensor([True, False])),
    "fill_": lambda lib: lib.zeros(2, dtype=lib.uint8).fill_(300),
    "masked_fill": lambda lib: lib.zeros(2, dtype=lib.int8).masked_fill(lib.tensor([True, False]), 300.0),
    "masked_fill with -inf": lambda lib: lib.zeros(2).masked_fill(lib.tensor([True, False]), -float("inf")),
    "index_fill": lambda lib: lib.zeros(2, dtype=lib.int8).index_fill(0, lib.tensor([0]), 300),
    "scatter": lambda lib: lib.zeros(2, dtype=lib.int8).scatter(0, lib.tensor([0]), 300),
}


@pytest.mark.parametrize("name", STORED)
def test_a_number_that_a_dtype_does_not_hold_is_not_stored_as_another(name: str, assert_agrees: Any) -> None:
    assert_agrees(STORED[name])


def test_what_was_refused_is_not_written() -> None:
    x = oplib.tensor([1, 2], dtype=oplib.uint8)
    text = (
        r"setitem_: the value cannot be converted to type uint8 without overflow. Got 300 for u8\[2\], which"
    )
    with pytest.raises(ArgumentOverflowError, match=text):
        x[0] = 300
    assert x.tolist() == [1, 2]
    assert x._version == 0


@pytest.mark.parametrize("name", SAME)
def test_a_result_that_needs_no_wide_integer_is_torchs(name: str, assert_agrees: Any) -> None:
    for _ in range(3):  # the first call, one with cached numbers, and the fast path
        assert_agrees(SAME[name])


@pytest.mark.parametrize("name", BEYOND)
def test_beyond_64_bits_both_refuse(name: str, assert_agrees: Any) -> None:
    for _ in range(2):
        assert_agrees(BEYOND[name])


@pytest.mark.parametrize("name", NEEDED)
def test_where_one_is_needed_the_error_names_the_cure_and_the_cure_helps(name: str) -> None:
    program = NEEDED[name]
    for _ in range(3):
        with pytest.raises(ArgumentOverflowError, match=r"Got -?\d+ (beside|for) .*jax_enable_x64"):
            program(oplib)
    with jax.enable_x64(True):
        assert program(oplib).tolist() == program(torch).tolist()


def test_a_comparison_with_a_wide_integer_runs_under_a_trace_and_on_arrays() -> None:
    below = jax.jit(lambda x: oplib.lt(x, WIDE))
    assert below(jax.numpy.array([1, 2])).tolist() == [True, True]
    assert oplib.vmap(lambda x: x > WIDE)(oplib.tensor([1, 2])).tolist() == [False, False]
