"""Numbers at the edge: sums of many halves, and gradients where a formula of infinities would give nan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")
MANY = 100_000
F = oplib.nn.functional
SUMS = {
    "mean": lambda x: x.mean(),
    "mean of columns": lambda x: x.reshape(-1, 10).mean(0),
    "nanmean": lambda x: x.nanmean(),
    "sum": lambda x: x.sum() / 16,
    "logsumexp": lambda x: x.logsumexp(0),
    "cumsum": lambda x: x.cumsum(0)[-5:],
    "logcumsumexp": lambda x: x.logcumsumexp(0)[-5:],
    "var": lambda x: x.var(),
    "norm": lambda x: x.norm(),
    "avg_pool1d": lambda x: F.avg_pool1d(x[None], MANY),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[None], 1),
    "mse_loss": lambda x: F.mse_loss(x, x.detach() + 1),
    "cross_entropy": lambda x: F.cross_entropy(x.reshape(-1, 10), oplib.arange(MANY // 10) % 10),
    "smooth cross_entropy": lambda x: F.cross_entropy(
        x.reshape(-1, 10), oplib.arange(MANY // 10) % 10, label_smoothing=0.1
    ),
    "weighted nll_loss": lambda x: F.nll_loss(
        x.reshape(-1, 10), oplib.arange(MANY // 10) % 10, weight=oplib.full((10,), 0.3, dtype=x.dtype)
    ),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SUMS)
def test_halves_accumulate_in_single(name: str, dtype: str) -> None:
    numbers = np.random.default_rng(0).random(MANY) * 0.01 + 0.001
    half = oplib.tensor(numbers, dtype=getattr(oplib, dtype)).requires_grad_()
    single = half.detach().float().requires_grad_()
    results = [SUMS[name](one) for one in (half, single)]
    for one in results:
        one.backward(oplib.ones_like(one))
    step = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    for ours, exact in zip((results[0], half.grad), (results[1], single.grad), strict=True):
        least = 6e-8 if dtype == "float16" else 1e-38  # the smallest number of the format
        size = float(exact.abs().max().item())
        np.testing.assert_allclose(
            ours.detach().float().numpy(), exact.detach().numpy(), rtol=2 * step, atol=max(least, step * size)
        )


INF, NAN = float("inf"), float("nan")
PAIRS = [(INF, -INF), (INF, 1.0), (-INF, INF), (1.0, INF), (-INF, 1.0), (INF, INF), (-INF, -INF), (INF, NAN)]
PAIRS += [(NAN, 1.0), (0.0, 0.0), (100.0, -100.0), (-200.0, 300.0)]
EDGES = {
    "logaddexp": ([a for a, _ in PAIRS], [b for _, b in PAIRS]),
    "logaddexp2": ([a for a, _ in PAIRS], [b for _, b in PAIRS]),
    "logit": ([0.0, -0.0, 1.0, -0.5, 1.5, 0.5, NAN, INF, -INF],),
    "lgamma": ([1.0, 2.0, 0.0, -0.0, -1.0, INF, -INF, NAN, 1.0000001, 1.9999999, 0.51, 2.49],),
}


@pytest.mark.parametrize("name", EDGES)
def test_values_and_gradients_at_edges_are_those_of_torch(name: str) -> None:
    def run(lib: Any) -> list[Any]:
        leaves = [lib.tensor(one, requires_grad=True) for one in EDGES[name]]
        value = getattr(lib, name)(*leaves)
        value.sum().backward()
        return [value.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]

    for ours, theirs in zip(run(oplib), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6)


def test_lgamma_keeps_its_digits_near_its_zeros() -> None:
    mpmath = pytest.importorskip("mpmath")
    points = np.linspace(0.5, 2.5, 201).astype(np.float32)
    ours = oplib.lgamma(oplib.tensor(points)).numpy()
    with mpmath.workdps(40):
        exact = [float(mpmath.loggamma(mpmath.mpf(float(one)))) for one in points]
    np.testing.assert_allclose(ours, exact, rtol=1e-6, atol=0)


def test_the_residuals_of_lstsq_have_the_history_of_the_solution(assert_agrees: Any) -> None:
    def program(lib: Any) -> Any:
        b = lib.ones(3, 1, requires_grad=True)
        found = lib.linalg.lstsq(lib.ones(3, 2) + lib.eye(3, 2), b)
        return [one.requires_grad for one in (found.solution, found.residuals, found.rank)]

    assert_agrees(program)
