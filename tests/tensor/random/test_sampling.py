"""Integers are drawn evenly, also from ranges that are nearly as wide as their words."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.tensor import Generator, randint, randint_like, zeros
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.random.sampling import _multiply_high, find_last_integer

COUNT = 100_000
RANGES = [(0, 3 * 2**29), (-(2**31), 2**30), (-(2**31), 2**31), (2**30, 2**31 - 1), (-2, 5), (0, 1000)]
WIDE_RANGES = [(0, 3 * 2**61), (-(2**63), 2**62), (-(2**63), 2**63), (0, 3 * 2**29)]


def require_even(drawn: np.ndarray, low: int, high: int) -> None:
    """Compares the counts in parts of a range with chi-square at seven standard deviations."""
    parts = min(high - low, 16)
    edges = [low + (high - low) * part // parts for part in range(1, parts)]
    counts = np.bincount(np.searchsorted(np.array(edges, drawn.dtype), drawn, "right"), minlength=parts)
    widths = np.diff(np.array([low, *edges, high], object)).astype(float)
    expected = drawn.size * widths / (high - low)
    assert low <= int(drawn.min())
    assert int(drawn.max()) < high
    assert ((counts - expected) ** 2 / expected).sum() < parts + 7 * (2 * parts) ** 0.5


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_each_part_of_a_range_is_drawn_as_often(low: int, high: int) -> None:
    generator = Generator().manual_seed(1)
    require_even(randint(low, high, (COUNT,), generator=generator).numpy(), low, high)
    require_even(randint_like(zeros(COUNT), low, high, dtype=dtypes.int32).numpy(), low, high)
    require_even(zeros(COUNT, dtype=dtypes.int32).random_(low, high, generator=generator).numpy(), low, high)


@pytest.mark.parametrize(("low", "high"), WIDE_RANGES)
def test_so_is_each_part_of_a_range_of_64_bits(low: int, high: int) -> None:
    with jax.enable_x64(True):
        require_even(randint(low, high, (COUNT,), generator=Generator().manual_seed(1)).numpy(), low, high)


def test_the_last_digits_are_even_too() -> None:
    drawn = randint(3 * 2**29, (COUNT,), generator=Generator().manual_seed(2)).numpy()
    require_even(drawn % 16, 0, 16)


@pytest.mark.parametrize("factor", [1, 7, 2**16, 3 * 2**29, 2**32 - 1])
def test_the_high_word_of_a_product_is_exact(factor: int) -> None:
    words = np.random.default_rng(0).integers(0, 2**32, 1000, np.uint32)
    high = _multiply_high(jnp.asarray(words), jnp.asarray(factor, jnp.uint32))
    assert np.asarray(high).tolist() == [int(word) * factor >> 32 for word in words]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_the_last_integer_of_a_dtype_is_the_last_that_it_tells_from_the_next(name: str) -> None:
    dtype = np.dtype(jnp.dtype(name))
    last = find_last_integer(dtype)
    before, found, after = (float(np.asarray(last + step).astype(dtype)) for step in (-1, 0, 1))
    assert before < found == after == last
