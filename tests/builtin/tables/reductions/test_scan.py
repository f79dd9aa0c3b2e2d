"""Scans of long axes, which CPUs compute in another form than accelerators."""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")
NAN, INF = float("nan"), float("inf")
ROWS = {
    "many": np.random.default_rng(0).uniform(0.9, 1.1, (3, 257)),
    "edges": np.array([[1.0, -0.0, NAN, 2.0], [INF, -INF, 1.0, 0.0], [-0.0, -0.0, 0.0, 3.0]]),
    "one": np.ones((3, 1)),
    "none": np.ones((3, 0)),
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_cumulative_sums_and_products_are_those_of_torch(name: str, dim: int, rows: str, dtype: str) -> None:
    def run(lib: Any) -> list[Any]:
        x = lib.tensor(ROWS[rows].astype(np.float32), dtype=getattr(lib, dtype), requires_grad=True)
        y = getattr(lib, name)(x, dim)
        (gradient,) = lib.autograd.grad(y.sum(), x)
        return [y.detach().float().numpy(), gradient.float().numpy()]

    step = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    ours, theirs = run(oplib), run(torch)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=step)
    if rows != "edges":
        np.testing.assert_allclose(ours[1], theirs[1], rtol=step)


def test_a_cumulative_sum_has_both_modes_and_is_mapped() -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    value, tangent = jax.jvp(lambda x: oplib.cumsum(x, 1), (x,), (x + 1,))
    np.testing.assert_array_equal(value, np.cumsum(x, 1))
    np.testing.assert_array_equal(tangent, np.cumsum(x + 1, 1))
    np.testing.assert_array_equal(jax.vmap(lambda x: oplib.cumsum(x, 0))(x), np.cumsum(x, 1))
    gradient = jax.vmap(jax.grad(lambda x: (oplib.cumsum(x, 0) * x).sum()))(x)
    np.testing.assert_array_equal(gradient, np.cumsum(x, 1) + np.cumsum(x[:, ::-1], 1)[:, ::-1])
    whole = oplib.cumsum(oplib.tensor([True, False, True]), 0)
    assert whole.tolist() == [1, 1, 2]
    assert oplib.cumprod(oplib.tensor(3.0), 0).item() == 3.0


def test_the_backward_of_a_cumulative_sum_is_one_scan_from_the_end() -> None:
    x = np.random.default_rng(3).standard_normal((3, 40)).astype(np.float32)
    weights = np.cos(x)
    found = jax.grad(lambda x: (oplib.cumsum(x, 1) * weights).sum())(x)
    np.testing.assert_allclose(found, np.cumsum(weights[:, ::-1], 1)[:, ::-1], rtol=1e-5, atol=1e-5)
    _, tangent = jax.jvp(lambda x: oplib.cumsum(x, 1), (x,), (weights,))
    np.testing.assert_allclose(tangent, np.cumsum(weights, 1), rtol=1e-5, atol=1e-5)


def test_a_cumulative_sum_of_any_length_is_exported_with_its_gradient() -> None:
    (length,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((length, 2), np.float32)
    x = np.random.default_rng(4).uniform(0.5, 1.5, (5, 2)).astype(np.float32)

    def find(x: Any) -> Any:
        return oplib.cumsum(x, 0)

    for function in (find, jax.grad(lambda x: find(x).sum())):
        exported = jax.export.export(jax.jit(function))(shape)
        np.testing.assert_allclose(exported.call(x), function(x), rtol=1e-5)


@pytest.mark.parametrize("length", [63, 64, 130, 1001])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_cumulative_extrema_of_long_axes_are_those_of_torch(name: str, length: int) -> None:
    rows = np.random.default_rng(1).integers(-30, 30, (2, length)).astype(np.float32)
    rows[0, 5], rows[1, length // 2 :: 7] = INF, NAN

    def run(lib: Any) -> list[Any]:
        values, indices = getattr(lib, name)(lib.tensor(rows), 1)
        return [values.numpy(), indices.numpy()]

    for ours, theirs in zip(run(oplib), run(torch), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_scan_is_the_same_before_and_after_x64_is_switched_on() -> None:
    items = jax.random.normal(jax.random.key(0), (2, 257))
    before = np.asarray(oplib.cumsum(items, 1)), np.asarray(oplib.cummax(items, 1)[1])
    with jax.enable_x64(True):
        np.testing.assert_array_equal(oplib.cumsum(items, 1), before[0])
        np.testing.assert_array_equal(oplib.cummax(items, 1)[1], before[1])
        wide = items.astype("float64")
        np.testing.assert_allclose(oplib.cumsum(wide, 1), np.cumsum(np.asarray(wide), 1), rtol=1e-10)
