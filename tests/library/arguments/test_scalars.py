"""Python numbers as operands: weak scalar arrays, cached from the second time on."""

from __future__ import annotations

import itertools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.library.arguments.scalars import CAPACITY, ScalarCache, to_operand

fresh = itertools.count(1000.5)  # numbers that no test has used


def test_a_number_is_an_array_from_the_second_time_on() -> None:
    number = next(fresh)
    assert to_operand(number) is number
    array = to_operand(number)
    assert isinstance(array, jax.Array)
    assert to_operand(number) is array


@pytest.mark.parametrize("number", [1.5, 7, 2 + 1j])
def test_the_array_promotes_as_the_number_does(number: complex) -> None:
    to_operand(number)
    array = to_operand(number)
    assert array.weak_type
    for dtype in (jnp.float16, jnp.float32, jnp.int8):
        x = jnp.ones(2, dtype)
        assert (x * array).dtype == (x * number).dtype


def test_a_number_has_one_array_for_each_setting_of_x64() -> None:
    number = next(fresh)
    for x64, dtype in ((False, "float32"), (True, "float64"), (False, "float32")):
        with jax.enable_x64(x64):
            for _ in range(2):
                found = to_operand(number)
            assert found.dtype == dtype


def test_a_nan_stays_a_number_since_none_equals_another() -> None:
    number = float("nan")
    assert all(to_operand(number) is number for _ in range(3))


@pytest.mark.parametrize("number", [0.0, -0.0, complex(0.0, -0.0), complex(-0.0, 0.0), 0], ids=repr)
def test_zeros_keep_their_signs(number: complex) -> None:
    for other in (
        0.0,
        -0.0,
        0j,
        complex(0.0, -0.0),
        complex(-0.0, 0.0),
        0,
    ):  # each could hide another
        for _ in range(2):
            to_operand(other)
    found = to_operand(number)
    assert isinstance(found, jax.Array)
    assert repr(found.item()) == repr(number)


def test_integers_and_floats_of_one_value_are_two_numbers() -> None:
    for number in (31, 31.0):
        to_operand(number)
    assert to_operand(31).dtype == jnp.int32
    assert to_operand(31.0).dtype == jnp.float32


@pytest.mark.parametrize("value", [True, np.float64(2.5), np.float32(2.5), "a", None], ids=repr)
def test_other_values_are_left_alone(value: object) -> None:
    assert all(to_operand(value) is value for _ in range(3))


def test_nothing_traced_is_cached() -> None:
    number = next(fresh)
    jax.jit(lambda x: x * to_operand(number) * to_operand(number))(1.0)
    found = to_operand(number)
    assert not isinstance(found, jax.core.Tracer)
    assert float(found) == number


@pytest.mark.devices(2)
def test_an_array_committed_to_a_mesh_is_not_cached() -> None:
    number = next(fresh)
    with jax.set_mesh(jax.make_mesh((2,), ("i",))):
        for _ in range(2):
            to_operand(number)
    elsewhere = jax.device_put(jnp.ones(2), jax.devices()[1])
    for _ in range(3):
        assert jax.jit(jnp.multiply)(elsewhere, to_operand(number)).devices() == {jax.devices()[1]}


def test_the_cache_is_bounded() -> None:
    cache = ScalarCache()
    for number in range(1, CAPACITY + 10):
        cache.find(number)
        cache.find(number)
    assert 0 < len(cache.arrays) <= CAPACITY


def test_an_integer_is_an_operand_where_the_widest_integers_hold_it() -> None:
    for x64, most in ((False, 2**31 - 1), (True, 2**63 - 1)):
        with jax.enable_x64(x64):
            for number in (most, -most - 1):
                assert int(to_operand(number)) == number
            for number in (most + 1, -most - 2):
                assert to_operand(number) is None


_FIRST_STEP = """
import logging
import jax, numpy, oplib

names = []
class Names(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("Compiling "):
            names.append(record.getMessage().split()[1])

logging.getLogger("jax").addHandler(Names())
jax.config.update("jax_log_compiles", True)
x = oplib.tensor(numpy.ones(3, numpy.float32), requires_grad=True)
for _ in range(3):
    (x * 1.5).pow(2).sum().backward()
    oplib.ones(3) * 2
print(*sorted(names))
"""


@pytest.mark.slow
def test_numbers_and_the_gradient_of_a_loss_compile_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", _FIRST_STEP], capture_output=True, text=True, check=True)
    kernels = done.stdout.split()
    assert kernels
    # the sums of gradients in a leaf are the only functions that are no kernel of an op
    assert [name for name in kernels if "oplib::" not in name] == ["jit(_add)"]


def test_numbers_that_differ_by_the_sign_of_a_zero_have_arrays_of_their_own() -> None:
    for number, is_negative in ((complex(1.5, 0.0), False), (complex(1.5, -0.0), True)):
        for _ in range(3):
            assert np.signbit(np.imag(to_operand(number))) == is_negative


def test_the_text_of_a_trace_does_not_depend_on_how_often_a_number_was_used() -> None:
    texts = [str(jax.make_jaxpr(lambda x: oplib.mul(x, 3.8125))(np.float32(2))) for _ in range(3)]
    assert texts[0] == texts[1] == texts[2]
