"""Random numbers: their ranges, moments and dtypes, and that a seed repeats them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import ArgumentError, ArgumentTypeError, UnsupportedDtypeError
from oplib.tensor import Generator, rand, rand_like, randint, randint_like, randn, randn_like, zeros
from oplib.tensor.dtypes import names as dtypes


def seeded() -> Generator:
    return Generator().manual_seed(0)


def test_rand_is_uniform_on_the_unit_interval() -> None:
    values = rand(10_000, generator=seeded()).numpy()
    assert 0 <= values.min() < 0.01
    assert 0.99 < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.02


def test_randn_has_mean_zero_and_variance_one() -> None:
    values = randn((100, 100), generator=seeded()).numpy()
    assert abs(values.mean()) < 0.05
    assert abs(values.var() - 1) < 0.05


def test_randint_draws_each_number_between_its_bounds() -> None:
    made = randint(2, 5, (1000,), generator=seeded())
    assert made.dtype == dtypes.int32
    assert set(made.tolist()) == {2, 3, 4}
    assert set(randint(2, [100], generator=seeded()).tolist()) == {0, 1}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32", "bool", "float16"])
def test_randint_takes_other_dtypes(dtype: str) -> None:
    made = randint(2, (50,), dtype=dtype, generator=seeded())
    assert made.dtype == dtype
    assert {int(value) for value in made.tolist()} == {0, 1}


def test_dtypes_can_be_chosen() -> None:
    assert rand(2, dtype="bfloat16").dtype == dtypes.bfloat16
    assert randn(2, dtype="complex64").dtype == dtypes.complex64
    with jax.enable_x64(True):
        assert randint(5, (2,)).dtype == dtypes.int64
        assert rand(2, dtype="float64").dtype == dtypes.float64


@pytest.mark.parametrize(("make", "dtype"), [(rand, "int32"), (rand, "bool"), (randn, "bool")])
def test_dtypes_without_such_numbers_are_refused(make: Any, dtype: str) -> None:
    with pytest.raises(UnsupportedDtypeError, match=f"{make.__name__}: only floating .*Got {dtype}"):
        make(2, dtype=dtype)


def test_randint_refuses_bounds_between_which_there_is_nothing() -> None:
    with pytest.raises(ArgumentError, match=r"randint: 'low' must be less than 'high'\. Got low=5, high=5"):
        randint(5, 5, (2,))


@pytest.mark.parametrize(
    ("bounds", "dtype"), [((0, 300), "uint8"), ((-1, 3), "uint8"), ((0, 2**40), None), ((0, 3), "bool")]
)
def test_randint_refuses_bounds_that_do_not_fit(bounds: tuple[int, int], dtype: Any) -> None:
    with pytest.raises(ArgumentError, match="randint: the bounds do not fit"):
        randint(*bounds, (2,), dtype=dtype)


@pytest.mark.parametrize("args", [(), (3,), (1, 2, (3,), 4)])
def test_randint_refuses_other_numbers_of_arguments(args: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^randint: the arguments are high, size or low, high, size"):
        randint(*args)


def test_randint_like_refuses_other_numbers_of_bounds() -> None:
    with pytest.raises(ArgumentError, match=r"^randint_like: the arguments are high or low, high"):
        randint_like(zeros(2))


def test_drawn_tensors_may_require_grad() -> None:
    assert rand(2, requires_grad=True).requires_grad
    assert randn(2, requires_grad=True).is_leaf
    np.testing.assert_equal(randint(3, (2,), dtype="float32", requires_grad=True).requires_grad, True)


def test_numbers_are_drawn_like_an_array_too() -> None:
    x = jnp.ones((2, 3), "float16")
    drawn: list[Any] = [rand_like(x), randn_like(x), randint_like(x, 4)]
    assert [(one.shape, one.dtype) for one in drawn] == [((2, 3), dtypes.float16)] * 3


def test_what_has_no_dtype_is_no_model_of_random_numbers() -> None:
    wrong: Any = [1.0]
    with pytest.raises(ArgumentTypeError, match="rand_like: argument 'input' is a Tensor or an array"):
        rand_like(wrong)
