"""Tensors from a shape and a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import oplib
from oplib.errors import ArgumentError, AutogradError, DtypeError, TracingError
from oplib.tensor import Tensor, arange, empty, eye, full, linspace, ones, tensor, zeros
from oplib.tensor.dtypes import names as dtypes


@pytest.mark.parametrize("size", [(2, 3), ((2, 3),), ([2, 3],), (np.int32(2), np.int64(3))])
def test_a_size_is_given_as_integers_or_as_one_sequence(size: tuple[Any, ...]) -> None:
    for make, value in ((zeros, 0.0), (ones, 1.0), (empty, 0.0)):
        made = make(*size)
        assert made.dtype == dtypes.float32
        np.testing.assert_array_equal(made.numpy(), np.full((2, 3), value))


def test_an_empty_size_makes_a_tensor_without_dimensions() -> None:
    assert zeros(()).shape == zeros([]).shape == ()


@pytest.mark.parametrize("size", [(2.0,), ("2",), (2, None), ((2, 3), 4)])
def test_a_size_that_is_not_made_of_integers_is_refused(size: tuple[Any, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"'size' is made of integers\. Got .*zeros\(2, 3\)"):
        zeros(*size)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"ones: no dimension has a negative length\. Got size \(2, -1\)"):
        ones(2, -1)


@pytest.mark.parametrize("size", [(3,), (100, 100)])  # made on the host, and on the device
@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1, None, "int32"),
        (True, None, "bool"),
        (1.5, None, "float32"),
        (1j, None, "complex64"),
        (np.int8(3), None, "int32"),
        (7, "bfloat16", "bfloat16"),
        (1.5, "int32", "int32"),
        (2, "complex64", "complex64"),
    ],
)
def test_full_takes_the_dtype_of_its_value(
    size: tuple[int, ...], value: Any, dtype: Any, expected: str
) -> None:
    made = full(size, value, dtype=dtype)
    assert (made.dtype, made.array.weak_type) == (expected, False)
    np.testing.assert_array_equal(made.numpy(), np.full(size, value).astype(made.dtype))


def test_full_takes_a_tensor_without_dimensions_also_traced() -> None:
    assert full((2,), tensor(3)).tolist() == [3, 3]
    filled = jax.jit(lambda a: full((2,), Tensor.from_array(a)).array)(2.5)
    np.testing.assert_array_equal(filled, [2.5, 2.5])


def test_full_refuses_what_does_not_fit() -> None:
    with pytest.raises(ArgumentError, match=r"full: argument 'fill_value' is one value\. Got f32\[2\]"):
        full((2,), tensor([1.0, 2.0]))
    with pytest.raises(DtypeError, match="float32 cannot hold a complex value"):
        full((2,), 1j, dtype="float32")
    with pytest.raises(DtypeError, match=r"values do not fit uint8\. Got 300"):
        full((2,), 300, dtype="uint8")


@pytest.mark.parametrize("shape", [(3, None), (2, 4), (4, 2), (0, 3)])
def test_eye_has_ones_on_its_diagonal(shape: tuple[int, Any]) -> None:
    np.testing.assert_array_equal(eye(*shape).numpy(), np.eye(*shape))


def test_eye_refuses_negative_sizes() -> None:
    with pytest.raises(ArgumentError, match=r"eye: no dimension has a negative length\. Got size \(-1, -1\)"):
        eye(-1)


@pytest.mark.parametrize(
    ("args", "dtype", "expected"),
    [
        ((5,), "int32", [0, 1, 2, 3, 4]),
        ((1, 4), "int32", [1, 2, 3]),
        ((5, 0, -2), "int32", [5, 3, 1]),
        ((3.0,), "float32", [0, 1, 2]),
        ((1, 2, 0.25), "float32", [1, 1.25, 1.5, 1.75]),
        ((2, 2), "int32", []),
        ((0,), "int32", []),
    ],
)
def test_arange_counts_from_start_to_before_end(args: Any, dtype: str, expected: list[float]) -> None:
    made = arange(*args)
    assert (made.dtype, made.tolist()) == (dtype, expected)


@settings(max_examples=25)
@given(
    start=st.integers(-50, 50) | st.floats(-5, 5),
    length=st.floats(0, 20),
    step=st.integers(1, 7) | st.floats(0.125, 3),
    sign=st.sampled_from([1, -1]),
)
def test_arange_agrees_with_torch(start: float, length: float, step: float, sign: int) -> None:
    torch = pytest.importorskip("torch")
    args = (start, start + sign * length, sign * step)
    ours, theirs = arange(*args, dtype="float32"), torch.arange(*args, dtype=torch.float32)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("args", [(0, 5, 0), (1, 5, -1), (5, 1)])
def test_arange_refuses_a_step_that_does_not_lead_there(args: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match="arange: argument 'step' leads from start to end"):
        arange(*args)


@pytest.mark.parametrize("args", [("a",), (0, 1j), (0, [1]), (0, 2, None)])
def test_arange_refuses_bounds_that_are_no_real_numbers(args: tuple[Any, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"arange: bounds and steps are numbers\. Got "):
        arange(*args)


def test_arange_cannot_count_to_a_traced_number() -> None:
    with pytest.raises(TracingError, match=r"item\(\): a traced tensor has no values yet\. Got i32\[\]"):
        jax.jit(lambda n: arange(Tensor.from_array(n)).array)(3)


def test_arange_refuses_numbers_beyond_its_dtype() -> None:
    with pytest.raises(DtypeError, match="values do not fit int32"):
        arange(2**31 - 1, 2**31 + 1)
    with pytest.raises(AutogradError, match="only floating and complex"):
        arange(3, requires_grad=True)


@pytest.mark.parametrize("args", [(0, 1, 5), (3, -3, 4), (0, 10, 1), (0, 1, 0), (0, 1j, 3)])
def test_linspace_holds_both_ends(args: Any) -> None:
    made = linspace(*args)
    assert made.dtype == ("complex64" if isinstance(args[1], complex) else "float32")
    np.testing.assert_allclose(made.numpy(), np.linspace(*args), rtol=1e-6)


def test_linspace_of_integers_cuts_fractions_off() -> None:
    assert linspace(0, 10, 5, dtype="int32").tolist() == [0, 2, 5, 7, 10]
    with pytest.raises(ArgumentError, match="linspace: no dimension has a negative length"):
        linspace(0, 1, -1)


def test_factories_make_leaves_that_may_require_grad() -> None:
    for made in (
        zeros(2, requires_grad=True),
        eye(2, requires_grad=True),
        linspace(0, 1, 2, requires_grad=True),
    ):
        assert made.is_leaf
        assert made.requires_grad


MADE: dict[str, Callable[..., Tensor]] = {
    "zeros": lambda **options: oplib.zeros(1, 2, **options),
    "full": lambda **options: oplib.full((1, 2, 3), 1.0, **options),
    "eye": lambda **options: oplib.eye(2, **options),
    "arange": lambda **options: oplib.arange(3, **options),
    "randint": lambda **options: oplib.randint(3, (2, 1, 2, 3), **options),
    "randperm": lambda **options: oplib.randperm(3, **options),
    "new_full": lambda **options: oplib.ones(2).new_full((1, 2), 1.0, **options),
    "zeros_like": lambda **options: oplib.zeros_like(oplib.ones(2), **options),
}


@pytest.mark.parametrize("name", MADE)
def test_a_memory_format_needs_its_rank_and_the_error_has_the_one_that_is_made(name: str):
    rank = MADE[name]().ndim
    assert MADE[name](memory_format=oplib.contiguous_format).ndim == rank
    for memory_format, due in ((oplib.channels_last, 4), (oplib.channels_last_3d, 5)):
        if rank == due:
            assert MADE[name](memory_format=memory_format).ndim == rank
            continue
        with pytest.raises(ArgumentError, match=f"^{name}: required rank {due} .* Got {rank} dimensions"):
            MADE[name](memory_format=memory_format)
