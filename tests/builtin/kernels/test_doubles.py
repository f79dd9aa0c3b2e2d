"""Functions of many singles on CPUs: rounded once, and right far out, at edges, and under transformations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import oplib
from oplib.builtin.kernels import doubles

MANY, INF, NAN = 2 * 4096, float("inf"), float("nan")
UNARY = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "asin": np.arcsin,
    "acos": np.arccos,
}
PAIRS = {"atan2": np.arctan2, "rem": np.fmod}
EDGES = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, INF, -INF, NAN, 3e38, -3e38, 1e20, 1e-20, 2.5, -2.0, 0.99999994, 0.4142),
    *(1.5707964, -3.1415927, 1e6, 1000001.0, 6.2831855, 22.0),
]


def draw(seed: int, largest: float) -> np.ndarray[Any, Any]:
    """Returns numbers of every size, near multiples of quarters of a circle, and edges."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([-1.0, 1.0], MANY) * 10 ** rng.uniform(-12, np.log10(largest), MANY)
    near = np.round(rng.uniform(-0.6, 0.6, MANY) * largest) * np.pi / 2
    pairs = np.meshgrid(EDGES, EDGES)[seed % 2].reshape(-1)
    return np.concatenate([sizes, near[np.abs(near) < largest], pairs]).astype(np.float32)


def assert_rounded_once(found: Any, exact: np.ndarray[Any, Any]) -> None:
    """Allows a thousandth of a unit in the last place more than rounding; XLA stores subnormals as zeros."""
    with np.errstate(all="ignore"):
        due, found = exact.astype(np.float32), np.asarray(found)
        tiny = np.finfo(np.float32).tiny
        step = np.where(np.abs(exact) < tiny, 2 * tiny, np.spacing(np.abs(due)))
        near = np.abs(found.astype(np.float64) - exact) <= 0.501 * step
    assert np.all((found == due) | near | (np.isnan(found) & np.isnan(due)))
    is_zero = (found == 0) & (due == 0)
    np.testing.assert_array_equal(np.signbit(found[is_zero]), np.signbit(due[is_zero]))


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_many_singles_is_rounded_once(name: str) -> None:
    x = draw(0, 1.0 if name[1:] in ("sin", "cos") else 9e5)
    with np.errstate(all="ignore"):
        exact = UNARY[name](x.astype(np.float64))
    found = getattr(doubles, name)(jnp.asarray(x))
    is_own = (np.abs(x) > 1e6) & np.isfinite(x) & (name in ("sin", "cos", "tan"))
    np.testing.assert_allclose(found[is_own], getattr(lax, name)(jnp.asarray(x[is_own])), rtol=3e-7)
    assert_rounded_once(np.where(is_own, 0, found), np.where(is_own, 0, exact))


@pytest.mark.parametrize("name", PAIRS)
def test_a_function_of_many_pairs_is_rounded_once(name: str) -> None:
    x, y = draw(0, 1e15), draw(1, 1e15)
    count = min(len(x), len(y)) - len(EDGES) ** 2
    x, y = (np.concatenate([one[:count], one[-(len(EDGES) ** 2) :]]) for one in (x, y))
    with np.errstate(all="ignore"):
        exact = PAIRS[name](x.astype(np.float64), y.astype(np.float64))
    assert_rounded_once(getattr(doubles, name)(jnp.asarray(x), jnp.asarray(y)), exact)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "atan"])
def test_derivatives_of_many_singles_are_those_of_few(name: str) -> None:
    x = np.linspace(-0.9, 0.9, MANY, dtype=np.float32)
    x[7] = 0.25 if name[1:] in ("sin", "cos") else 2e6

    def differentiate(values: Any) -> list[Any]:
        leaf = oplib.tensor(values, requires_grad=True)
        first = oplib.autograd.grad(getattr(oplib, name)(leaf).sum(), leaf, create_graph=True)[0]
        second = oplib.autograd.grad(first.sum(), leaf)[0]
        tangent = jax.jvp(lambda v: getattr(oplib, name)(v), (jnp.asarray(values),), (jnp.ones_like(values),))
        return [first.detach().numpy(), second.numpy(), tangent[1]]

    for many, few in zip(differentiate(x), differentiate(x[:64]), strict=True):
        np.testing.assert_allclose(many[:64], few, rtol=3e-6, atol=1e-6)


def test_an_item_does_not_depend_on_others_nor_on_a_batch() -> None:
    x = np.linspace(-9, 9, MANY, dtype=np.float32)
    far = x.copy()
    far[0] = 1e30
    due = doubles.sin(jnp.asarray(x))
    np.testing.assert_array_equal(doubles.sin(jnp.asarray(far))[1:], due[1:])
    found = jax.jit(jax.vmap(lambda row: oplib.sin(row)))(jnp.stack([jnp.asarray(far), jnp.asarray(x)]))
    np.testing.assert_array_equal(found[1], due)
    np.testing.assert_allclose(found[0, 0], np.sin(np.float64(np.float32(1e30))), rtol=1e-6)
