"""Sums of exponentials, and extrema of many items: first positions, and nan, which XLA may leave out."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import oplib
import oplib.nn.functional as F

SHAPES = [((4096,), 0), ((64, 128), 1), ((64, 130), 0), ((3, 130, 17), 1), ((5, 1009), 1), ((2, 3, 1024), 2)]


def draw(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Returns items of which many are equal, and some are special."""
    generator = np.random.default_rng(seed)
    items = generator.integers(-3, 3, shape).astype(np.float32)
    for special in (np.nan, np.inf, -np.inf, -0.0):
        items.flat[generator.integers(0, items.size, generator.integers(0, 4))] = special
    return items


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_extrema_and_positions_of_many_items_are_those_of_torch(
    shape: tuple[int, ...], axis: int, dtype: str
) -> None:
    torch = pytest.importorskip("torch")
    for seed in range(4):
        items = draw(shape, seed)
        items = np.nan_to_num(items, posinf=9, neginf=-9) if dtype == "int32" else items
        mine, its = (
            oplib.tensor(items).to(getattr(oplib, dtype)),
            torch.tensor(items).to(getattr(torch, dtype)),
        )
        for name in ("max", "min"):
            for found, expected in (
                (getattr(oplib, name)(mine, axis)[0], getattr(torch, name)(its, axis)[0]),
                (getattr(oplib, name)(mine, axis)[1], getattr(torch, name)(its, axis)[1]),
                (getattr(oplib, name)(mine), getattr(torch, name)(its)),
                (getattr(oplib, f"a{name}")(mine, axis), getattr(torch, f"a{name}")(its, axis)),
                (getattr(oplib, f"arg{name}")(mine, axis), getattr(torch, f"arg{name}")(its, axis)),
                (getattr(oplib, f"arg{name}")(mine), getattr(torch, f"arg{name}")(its)),
            ):
                np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())


CALLS = {
    "max": oplib.max,
    "min": oplib.min,
    "aminmax": lambda x: oplib.aminmax(x).max,
    "norm": lambda x: oplib.linalg.vector_norm(x, np.inf),
    "least norm": lambda x: oplib.linalg.vector_norm(x, -np.inf),
    "matrix_norm": lambda x: oplib.linalg.matrix_norm(x, 1),
    "distances": lambda x: oplib.cdist(x, oplib.ones_like(x)).sum(),
    "a sum of relu": lambda x: oplib.relu(x).sum(),
    "a sum of maxima": lambda x: oplib.maximum(x, oplib.ones_like(x)).sum(),
    "a mean of minima": lambda x: oplib.minimum(x, oplib.ones_like(x)).mean(),
    "a maximum of relu": lambda x: oplib.relu(x).max(),
    "clamp_min": lambda x: x.clamp_min(0.0).sum(),
    "relu6": lambda x: F.relu6(x).sum(),
    "hardtanh": lambda x: F.hardtanh(x).sum(),
    "hinge": lambda x: F.hinge_embedding_loss(x, -oplib.ones_like(x)),
    "margin": lambda x: F.margin_ranking_loss(x, oplib.ones_like(x), oplib.ones_like(x)),
    "max_pool2d": lambda x: F.max_pool2d(x[None], 2).sum(),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x[None], 4).sum(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_nan_among_many_items_is_seen_eagerly_and_in_compiled_programs(call: Any) -> None:
    items = draw((64, 128), 1)
    items = np.where(np.isfinite(items), items, 0)
    items[1, 3] = np.nan
    compiled: Any = oplib.jit(call)
    for found in (call(oplib.tensor(items)), compiled(oplib.tensor(items))):
        assert np.isnan(found.numpy())


def test_positions_along_an_axis_that_devices_share_are_those_of_the_whole() -> None:
    mesh = jax.make_mesh((jax.device_count(),), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "a"))
    items = np.random.default_rng(0).standard_normal((3, 512)).astype(np.float32)
    with jax.set_mesh(mesh):
        found = oplib.argmax(oplib.tensor(jax.device_put(items, sharding)), 1)
    np.testing.assert_array_equal(found.numpy(), items.argmax(1))


@pytest.mark.parametrize(
    ("shape", "dims", "keepdim"), [((5,), 0, False), ((3, 4), (0, 1), True), ((), 0, False)]
)
def test_derivatives_of_logsumexp_are_those_of_torch(shape: Any, dims: Any, keepdim: bool) -> None:
    torch = pytest.importorskip("torch")
    items = np.random.default_rng(0).standard_normal(shape).astype(np.float32)

    def run(lib: Any) -> list[Any]:
        x = lib.tensor(items, requires_grad=True)
        y = lib.logsumexp(x, dims, keepdim)
        (first,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad((first * first).sum(), x)
        return [found.detach().numpy() for found in (y, first, second)]

    for mine, its in zip(run(oplib), run(torch), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-5)


def test_items_of_minus_infinity_have_no_share_of_logsumexp() -> None:
    for items, shares in (([-np.inf, -np.inf], [0.0, 0.0]), ([-np.inf, 1.0], [0.0, 1.0])):
        x = oplib.tensor(items, requires_grad=True)
        (gradient,) = oplib.autograd.grad(oplib.logsumexp(x, 0), x)
        assert gradient.tolist() == shares
        np.testing.assert_array_equal(jax.grad(lambda x: oplib.logsumexp(x, 0))(x.detach().array), shares)
