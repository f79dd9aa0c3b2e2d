"""Pooling with ties, nan, infinities and padding, at sizes that the samples do not have, beside torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")
INF, NAN = math.inf, math.nan
WINDOWS = [(2,), (3, 2, 1), (3, 1, 1, 2), (4, 3, 2, 1, True), (9, 3, 4)]  # the last has more than 64 items


def draw(size: int, rank: int) -> np.ndarray[Any, Any]:
    x = np.round(np.random.default_rng(rank).standard_normal((2, 3, *(size,) * rank)) * 2).astype(np.float32)
    flat = x.reshape(-1)
    for step, value in ((7, -INF), (5, -0.0), (9, 0.0), (13, INF)):
        flat[step::step] = value
    x[0, 0], x[1, 1].reshape(-1)[5] = -INF, NAN  # of several nan torch chooses the last, oplib the first
    return x


def pool(lib: Any, name: str, x: Any, arguments: tuple[Any, ...], dtype: str) -> list[Any]:
    """Returns values, positions and the gradient."""
    leaf = lib.tensor(x, dtype=getattr(lib, dtype), requires_grad=True)
    values, positions = getattr(lib.nn.functional, name)(leaf, *arguments, return_indices=True)
    weights = (lib.arange(math.prod(values.shape)).reshape(tuple(values.shape)) % 3 + 1).to(leaf.dtype)
    (gradient,) = lib.autograd.grad(values, leaf, weights)
    return [array.float().numpy() for array in (values.detach(), positions, gradient)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("arguments", WINDOWS, ids=str)
def test_max_pool_chooses_the_items_that_torch_chooses(arguments: tuple[Any, ...], dtype: str) -> None:
    x = draw(9, 2)
    for ours, theirs in zip(
        *(pool(lib, "max_pool2d", x, arguments, dtype) for lib in (oplib, torch)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


@pytest.mark.matrix(3)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_adaptive_pools_of_even_ranges_are_those_of_torch(rank: int, count: int) -> None:
    x, name = draw(6, rank), f"adaptive_max_pool{rank}d"
    for ours, theirs in zip(
        *(pool(lib, name, x, (count,), "float32") for lib in (oplib, torch)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
    averages = [
        getattr(lib.nn.functional, f"adaptive_avg_pool{rank}d")(lib.tensor(x), count).numpy()
        for lib in (oplib, torch)
    ]
    np.testing.assert_allclose(*averages, rtol=1e-6, atol=1e-6)
    empty = getattr(oplib.nn.functional, f"adaptive_avg_pool{rank}d")(oplib.ones(0, *x.shape[1:]), count)
    assert empty.shape == (0, 3, *(count,) * rank)


def test_gradients_of_overlapping_windows_of_halves_are_added_in_single_precision() -> None:
    x = oplib.zeros(1, 1, 64, dtype=oplib.bfloat16, requires_grad=True)
    oplib.nn.functional.max_pool1d(x + oplib.eye(64)[0], 33, 1, 16)[..., :17].sum().backward()
    assert x.grad[0, 0, 0].item() == 17.0


def test_the_derivative_of_max_pool_is_linear_in_the_gradient() -> None:
    x = oplib.tensor(np.arange(16.0).reshape(1, 4, 4), dtype=oplib.float32, requires_grad=True)
    g = oplib.tensor([[[1.0, 2.0], [3.0, 4.0]]], requires_grad=True)
    (first,) = oplib.autograd.grad(oplib.nn.functional.max_pool2d(x, 2), x, g, create_graph=True)
    (second,) = oplib.autograd.grad((first**2).sum(), g)
    assert second.tolist() == [[[2.0, 4.0], [6.0, 8.0]]]
    mapped = oplib.vmap(lambda one: oplib.nn.functional.max_pool2d(one, 2))(oplib.stack([x, -x]))
    assert mapped[1].tolist() == (-x[:, ::2, ::2]).tolist()


@pytest.mark.parametrize("size", [4, (2, 3), 1, 5])
def test_adaptive_pools_of_many_items_take_the_first_nan_of_a_window(size: Any) -> None:
    items = np.random.default_rng(0).integers(-3, 3, (2, 8, 16, 24)).astype(np.float32)
    items.flat[::101] = np.nan
    values, indices = oplib.nn.functional.adaptive_max_pool2d(oplib.tensor(items), size, return_indices=True)
    rows, columns = (size, size) if isinstance(size, int) else size
    numbers = np.arange(16 * 24).reshape(16, 24)
    for row in range(rows):
        for column in range(columns):
            place = (
                slice(row * 16 // rows, -(-(row + 1) * 16 // rows)),
                slice(column * 24 // columns, -(-(column + 1) * 24 // columns)),
            )
            window = items[(..., *place)].reshape(2, 8, -1)
            first = np.where(np.isnan(window), np.inf, window).argmax(-1)
            np.testing.assert_array_equal(indices.numpy()[:, :, row, column], numbers[place].ravel()[first])
            found = np.take_along_axis(window, first[..., None], -1)[..., 0]
            np.testing.assert_array_equal(values.numpy()[:, :, row, column], found)
