"""Bags of rows: what the largest item of a bag is if some are NaN, and second derivatives."""

from typing import Any

import jax
import numpy as np
import pytest

import oplib

NAN = float("nan")


@pytest.mark.parametrize("dtype", [oplib.float32, oplib.bfloat16], ids=str)
def test_the_maximum_of_a_bag_with_nan_is_nan_and_the_first_nan_has_the_gradient(dtype: Any) -> None:
    table = oplib.tensor([[1.0, NAN], [2.0, NAN], [NAN, 3.0]], dtype=dtype, requires_grad=True)
    indices, offsets = oplib.tensor([0, 1, 2, 1, 2, 1]), oplib.tensor([0, 3, 5, 6, 6])
    largest = oplib.nn.functional.embedding_bag(indices, table, offsets, mode="max")
    due = oplib.tensor([[NAN, NAN], [NAN, NAN], [2.0, NAN], [0.0, 0.0], [0.0, 0.0]], dtype=dtype)
    assert oplib.allclose(largest, due, equal_nan=True)
    (slope,) = oplib.autograd.grad(largest, table, oplib.ones_like(largest))
    assert slope.tolist() == [[0.0, 1.0], [1.0, 2.0], [2.0, 0.0]]


@pytest.mark.parametrize("include_last_offset", [False, True])
@pytest.mark.parametrize("padding_idx", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "weighted sum", "mean", "max"])
def test_second_derivatives_of_bags_are_those_of_finite_differences(
    mode: str, padding_idx: int | None, include_last_offset: bool
) -> None:
    """torch has no second derivative of a bag."""
    with jax.enable_x64(True):
        generator = np.random.default_rng(0)
        table, factors = generator.standard_normal((7, 3)), generator.random(8)
        indices = oplib.tensor([0, 2, 2, 5, 6, 1, 1, 3])
        offsets = oplib.tensor([0, 3, 3, 6, 8] if include_last_offset else [0, 3, 3, 6])

        def square(weight: Any, per_sample_weights: Any = None) -> Any:
            bags: Any = oplib.nn.functional.embedding_bag(
                indices,
                weight,
                offsets,
                mode=mode.rsplit(maxsplit=1)[-1],
                per_sample_weights=per_sample_weights,
                padding_idx=padding_idx,
                include_last_offset=include_last_offset,
            )
            return bags**2

        given = (table, factors) if "weighted" in mode else (table,)
        leaves = [oplib.tensor(array, requires_grad=True) for array in given]
        assert oplib.autograd.gradcheck(square, leaves)
        assert oplib.autograd.gradgradcheck(square, leaves)
