"""Numbers at the edge: sums of many halves, and gradients where a formula of infinities would give nan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oplib

torch = pytest.importorskip("torch")
MANY, A_MILLION = 100_000, 1_000_000
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
    "avg_pool1d": lambda x: F.avg_pool1d(x[None], len(x)),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x[None], 1),
    "mse_loss": lambda x: F.mse_loss(x, x.detach() + 1),
    "cross_entropy": lambda x: F.cross_entropy(x.reshape(-1, 10), labels(x)),
    "smooth cross_entropy": lambda x: F.cross_entropy(x.reshape(-1, 10), labels(x), label_smoothing=0.1),
    "weighted nll_loss": lambda x: F.nll_loss(
        x.reshape(-1, 10), labels(x), weight=oplib.full((10,), 0.3, dtype=x.dtype)
    ),
    "scatter_add": lambda x: zeros_like(x).scatter_add(0, places(x), x) / 16,
    "scatter_reduce mean": lambda x: zeros_like(x).scatter_reduce(0, places(x), x, "mean"),
    "index_add": lambda x: zeros_like(x).index_add(0, places(x), x) / 16,
    "index_reduce mean": lambda x: zeros_like(x).index_reduce(0, places(x), x, "mean"),
    "index_put": lambda x: zeros_like(x).index_put((places(x),), x, accumulate=True) / 16,
    "put": lambda x: zeros_like(x).put(places(x), x, accumulate=True) / 16,
    "embedding_bag": lambda x: F.embedding_bag(oplib.arange(len(x))[None], x[:, None], mode="mean"),
    "gather": lambda x: x[:3].gather(0, places(x)) * 0.01,
    "index_select": lambda x: x[:3].index_select(0, places(x)) * 0.01,
    "take": lambda x: x[:3].take(places(x)) * 0.01,
    "take_along_dim": lambda x: oplib.take_along_dim(x[:3], places(x), 0) * 0.01,
    "indexing": lambda x: x[:3][places(x)] * 0.01,
    "embedding": lambda x: F.embedding(places(x), x[:3, None]) * 0.01,
    "repeat": lambda x: x[:1].repeat(MANY) * 0.01,
    "broadcasting": lambda x: (x[:1] + x.detach()) * 0.01,
    "log_softmax": lambda x: x.reshape(10, -1).log_softmax(1)[:, 0],
    "batch_norm": lambda x: F.batch_norm(x.reshape(-1, 10), None, None, training=True)[:5],
    "running moments": lambda x: find_moments(x.reshape(-1, 10)),
    "layer_norm": lambda x: F.layer_norm(x, (len(x),))[:5],
    "matmul": lambda x: x[None] @ x.detach()[:, None],
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.detach().flip(0), 0),
    "rms_norm": lambda x: F.rms_norm(x, (len(x),), eps=1e-5)[:5],
    "group_norm": lambda x: F.group_norm(x.reshape(1, 10, -1), 2)[0, :5, :5],
    "instance_norm": lambda x: F.instance_norm(x.reshape(1, 10, -1))[0, :5, :5],
    "softmax": lambda x: x.softmax(0)[:5],
    "softmin": lambda x: F.softmin(x, 0)[:5],
    "std": lambda x: x.std(),
    "norm of order 1": lambda x: x.norm(1) / 100,
    "norm of order 3": lambda x: x.norm(3),
    "normalize": lambda x: F.normalize(x, dim=0) * 100,
    "dist": lambda x: oplib.dist(x, x.detach() * 0),
    "l1_loss": lambda x: F.l1_loss(x, x.detach() + 1),
    "huber_loss": lambda x: F.huber_loss(x, x.detach() + 1),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x.detach() + 1),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x, x.detach() * 0 + 1),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, x.detach() * 0 + 1),
    "kl_div": lambda x: F.kl_div(x, x.detach() * 0 + 0.5),
    "poisson_nll_loss": lambda x: F.poisson_nll_loss(x, x.detach()),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x.detach() * 0, x.detach() * 0 + 1),
    "soft_margin_loss": lambda x: F.soft_margin_loss(x, x.detach() * 0 + 1),
    "hinge_embedding_loss": lambda x: F.hinge_embedding_loss(x, x.detach() * 0 + 1),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x.reshape(-1, 10), labels(x)),
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(
        x.reshape(-1, 10), x.detach().reshape(-1, 10) * 0, x.detach().reshape(-1, 10) * 0
    ),
    "trapezoid": lambda x: oplib.trapezoid(x) / 16,
    "masked.mean": lambda x: oplib.masked.mean(x, mask=x > 0),
    "masked.std": lambda x: oplib.masked.std(x, 0, unbiased=True, mask=x > 0),
    "kl_div of a batch": lambda x: F.kl_div(x, x.detach() * 0 + 0.5, reduction="batchmean"),
    "cross_entropy of shares": lambda x: F.cross_entropy(
        oplib.stack([x, x * 2], 1), oplib.stack([x, x], 1).detach() * 50, label_smoothing=0.1
    ),
    "cdist": lambda x: oplib.cdist(x[None] * 100, x.detach()[None] * 0),
}


def places(x: Any) -> Any:
    return oplib.arange(len(x)) % 3


def labels(x: Any) -> Any:
    return oplib.arange(len(x) // 10) % 10


def zeros_like(x: Any) -> Any:
    return oplib.zeros(3, dtype=x.dtype)


def find_moments(x: Any) -> Any:
    mean, var = oplib.zeros(10, dtype=x.dtype), oplib.ones(10, dtype=x.dtype)
    F.batch_norm(x, mean, var, training=True, momentum=1.0)
    return oplib.stack([mean, var])


@pytest.mark.matrix(8)
@pytest.mark.usefixtures("with_64_bits")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("many", [MANY, pytest.param(A_MILLION, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SUMS)
def test_halves_are_added_up_as_exactly_as_they_are_stored(name: str, many: int, dtype: str) -> None:
    numbers = np.random.default_rng(0).random(many) * 0.01 + 0.001
    half = oplib.tensor(numbers, dtype=getattr(oplib, dtype)).requires_grad_()
    double = half.detach().double().requires_grad_()
    results = [SUMS[name](one) for one in (half, double)]
    for one in results:
        if one.requires_grad:
            one.backward(oplib.ones_like(one))
    step = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    pairs = [(results[0], results[1])] + ([] if half.grad is None else [(half.grad, double.grad)])
    for ours, exact in pairs:
        least = 6e-8 if dtype == "float16" else 1e-38  # the smallest number of the format
        size = float(exact.abs().max().item())
        np.testing.assert_allclose(
            ours.detach().double().numpy(),
            exact.detach().numpy(),
            rtol=2 * step,
            atol=max(least, step * size),
        )


def test_a_product_of_scattered_items_keeps_nan_where_it_is() -> None:
    src = oplib.tensor([[NAN, INF], [0.0, -2.0]], requires_grad=True)
    zeros = oplib.zeros(2, 2, dtype=oplib.int32)
    oplib.ones(2, 2).scatter_reduce(1, zeros, src, "prod")[1].sum().backward()
    assert src.grad[1].tolist() == [-2.0, 0.0]


FAR = {
    "div": ([1e25, 1e-10, 0.0], [1e20, 1e-20, 1e-20]),
    "atan2": ([1e-20, 1e20, -1e20], [1e-20, 1e20, 1e-20]),
    "hypot": ([2e-38, 1e30, -3e-38], [4e-38, 1e30, 0.0]),
}


@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize("name", FAR)
def test_gradients_square_nothing_that_is_too_large_or_small_for_it(name: str, compiles: bool) -> None:
    def find(x: Any, y: Any) -> Any:
        value = getattr(oplib, name)(x, y)
        return (value, *oplib.autograd.grad(value, [x, y], oplib.ones_like(value)))

    def find_exactly(x: float, y: float) -> tuple[float, float, float]:
        length = np.hypot(x, y)
        return {
            "div": lambda: (x / y, 1 / y, -x / y / y),
            "atan2": lambda: (np.arctan2(x, y), y / length / length, -x / length / length),
            "hypot": lambda: (length, x / length, y / length),
        }[name]()

    leaves = [oplib.tensor(one, requires_grad=True) for one in FAR[name]]
    found = (oplib.jit(find) if compiles else find)(*leaves)
    exact = zip(*(find_exactly(x, y) for x, y in zip(*FAR[name], strict=True)), strict=True)
    for ours, right in zip(found, exact, strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), right, rtol=1e-6, atol=1.2e-38)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rms_norm_of_halves_adds_the_epsilon_of_float32(assert_agrees: Any, dtype: str) -> None:
    def program(lib: Any) -> Any:
        x = lib.tensor([1e-3, 2e-3], dtype=getattr(lib, dtype), requires_grad=True)
        y = lib.nn.functional.rms_norm(x, (2,))
        y.sum().backward()
        return y, x.grad

    assert_agrees(program)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("exponent", [-2, -1, 2, 3, 4])
def test_integer_powers_of_halves_are_rounded_once(exponent: int, dtype: str) -> None:
    x = oplib.tensor(np.linspace(0.3, 300.0, 200), dtype=getattr(oplib, dtype)).requires_grad_()
    y = x**exponent
    y.backward(oplib.ones_like(y))
    wide = x.detach().float().numpy().astype(np.float64)
    half = y.detach().numpy().dtype
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y.detach().numpy(), (wide**exponent).astype(half))
        np.testing.assert_array_equal(x.grad.numpy(), (exponent * wide ** (exponent - 1)).astype(half))


INF, NAN = float("inf"), float("nan")
PAIRS = [(INF, -INF), (INF, 1.0), (-INF, INF), (1.0, INF), (-INF, 1.0), (INF, INF), (INF, NAN)]
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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("decimals", [1, 2, 5, -2])
def test_rounding_to_decimals_divides_by_the_power_of_ten_itself(decimals: int, dtype: str) -> None:
    numbers = [0.3, 0.123, 700.0, 12345.0, 0.25, -0.25, -0.0, INF, NAN, 1e-9]
    ours, theirs = (
        lib.round(lib.tensor(numbers, dtype=getattr(lib, dtype)), decimals=decimals) for lib in (oplib, torch)
    )
    np.testing.assert_array_equal(ours.float().numpy(), theirs.float().numpy())
    assert oplib.vmap(lambda x: oplib.round(x, decimals=1))(oplib.tensor([12345.3])).item() == np.float32(
        12345.3
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", ["acosh", "atan", "atanh"])
def test_second_derivatives_of_inverse_functions_are_none_of_nan(name: str, dtype: str) -> None:
    def run(lib: Any, x: Any) -> list[Any]:
        (first,) = lib.autograd.grad(getattr(lib, name)(x.requires_grad_()).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad(first.sum(), x)
        return [first.detach().numpy(), second.numpy()]

    points = {"acosh": [1.0, 1.5, 3e4, INF], "atanh": [0.0, 0.5, -0.25, 1.0, -1.0, 2.0]}
    x = points.get(name, [0.0, -0.0, 16.0, -3e4, 3e38])
    x = oplib.tensor(x[: len(x) - (dtype == "float16")], dtype=getattr(oplib, dtype))
    exact = run(torch, torch.tensor(x.float().numpy()).double())
    for ours, right in zip(run(oplib, x), exact, strict=True):
        np.testing.assert_allclose(
            ours.astype(np.float32), np.nan_to_num(right, neginf=-INF, posinf=INF), rtol=2e-2, atol=1e-7
        )


@pytest.mark.parametrize(("a", "x"), [(0.0, 0.5), (0.0, INF), (INF, 0.0), (INF, 2.0), (1.0, INF), (2.5, INF)])
def test_incomplete_gamma_functions_have_their_limits_and_no_slope_there(a: float, x: float) -> None:
    at = oplib.tensor(x, requires_grad=True)
    low, high = oplib.special.gammainc(oplib.tensor(a), at), oplib.special.gammaincc(oplib.tensor(a), at)
    (low - high).backward()
    whole = 0.0 if a == INF else 1.0
    assert (low.item(), high.item(), at.grad.item()) == (whole, 1 - whole, 0.0)


def test_zeta_of_infinity_is_what_the_first_term_tends_to() -> None:
    at = oplib.tensor([0.5, 1.0, 2.0, INF, 0.0, NAN])
    np.testing.assert_array_equal(oplib.special.zeta(oplib.tensor(INF), at).numpy(), [INF, 1, 0, 0, INF, NAN])


SMALL_SUMS = {
    "sum": lambda lib, x: x.sum(),
    "sum over an axis": lambda lib, x: x.reshape(-1, 1).expand(-1, 2).sum(0, keepdim=True),
    "sum of another dtype": lambda lib, x: x.float().sum(dtype=x.dtype),
    "nansum": lambda lib, x: x.nansum(),
    "sum_to_size": lambda lib, x: x.sum_to_size(1),
    "mean": lambda lib, x: x.mean() * len(x),
    "tensordot": lambda lib, x: lib.tensordot(x, lib.ones(1, dtype=x.dtype), dims=([0], [0])),
    "cumsum": lambda lib, x: x.cumsum(0)[-1],
    "dot": lambda lib, x: x @ lib.ones_like(x),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SMALL_SUMS)
def test_sums_of_many_small_halves_are_exact_within_one_percent(name, dtype):
    for lib in (oplib, torch):
        halves = lib.full((5000,), 2e-4, dtype=getattr(lib, dtype))
        exact = float(halves[0]) * len(halves)
        sums = SMALL_SUMS[name](lib, halves)
        assert sums.dtype == halves.dtype
        assert [abs(one / exact - 1) < 0.01 for one in sums.reshape(-1).tolist()] == [True] * sums.numel()


@pytest.mark.parametrize("function", ["quantile", "nanquantile"])
@pytest.mark.parametrize("is_tensor", [False, True])
def test_a_part_that_is_nan_is_refused_as_in_torch(function: str, is_tensor: bool) -> None:
    for lib in (oplib, torch):
        q = lib.tensor([0.5, float("nan")]) if is_tensor else float("nan")
        with pytest.raises(RuntimeError, match=r"must be in the range \[0, 1\]"):
            getattr(lib, function)(lib.tensor([1.0, 2.0]), q)


@pytest.mark.parametrize("function", ["trapezoid", "cumulative_trapezoid"])
def test_an_integral_of_bools_is_refused_as_in_torch(function: str) -> None:
    for lib in (oplib, torch):
        bools, floats = lib.tensor([True, False]), lib.tensor([1.0, 2.0])
        for operands in ((bools,), (bools, floats), (floats, bools)):
            with pytest.raises(RuntimeError, match="not supported"):
                getattr(lib, function)(*operands)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_small_integers_index_axes_that_are_longer_than_they_count(dtype: str) -> None:
    x = oplib.arange(300.0).repeat(150, 1)
    places = oplib.tensor([1, -2], dtype=getattr(oplib, dtype))
    assert x[0, places].tolist() == [1.0, 298.0]
    x[0, places] = -1.0
    assert [x[0, 1].item(), x[0, 298].item(), x[0].sum().item()] == [-1.0, -1.0, 300 * 299 / 2 - 301]
    assert x.index_put((places, places), oplib.zeros(2))[148, 298].item() == 0.0
    assert oplib.arange(40_000.0)[places].tolist() == [1.0, 39_998.0]
