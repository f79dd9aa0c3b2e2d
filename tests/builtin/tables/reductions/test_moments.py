"""Distances of rows that come from a product of matrices, at sizes that the samples do not have."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib

pytestmark = pytest.mark.usefixtures("with_64_bits")


def draw(rows: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((rows, 3)) + 5


def find_distances(x: Any, y: Any) -> Any:
    return jnp.sqrt(jnp.sum(jnp.square(x[:, None] - y[None]), -1))


@pytest.mark.slow
@pytest.mark.parametrize("function", ["cdist", "pdist"])
def test_distances_of_many_rows_have_both_derivatives(function: str) -> None:
    x, y = draw(30, 0), draw(4, 1)
    above = np.triu_indices(30, 1)
    weights = np.random.default_rng(2).standard_normal((30, 4) if function == "cdist" else len(above[0]))

    def find(x: Any, y: Any) -> Any:
        if function == "cdist":
            return jnp.sum(weights * oplib.cdist(x, y)), jnp.sum(weights * find_distances(x, y))
        # The rows are taken apart, because a distance of a row to itself has no derivative.
        apart = jnp.sqrt(jnp.sum(jnp.square(x[above[0]] - x[above[1]]), 1))
        return jnp.sum(weights * oplib.nn.functional.pdist(x)), jnp.sum(weights * apart)

    def push(which: int) -> Any:
        """Returns value, gradients, and the derivative of the gradients along a direction."""
        gradients = jax.grad(lambda x, y: find(x, y)[which], (0, 1))
        return find(x, y)[which], *jax.jvp(gradients, (x, y), (draw(30, 3), draw(4, 4)))

    for ours, exact in zip(*(jax.tree.leaves(push(which)) for which in (0, 1)), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("function", ["cdist", "pdist"])
def test_a_distance_of_zero_among_many_rows_gives_no_gradient(function: str) -> None:
    x = oplib.tensor(np.zeros((30, 3)), requires_grad=True)
    pairs = oplib.nn.functional.pdist(x) if function == "pdist" else oplib.cdist(x, x.detach())
    assert pairs.abs().max().item() == 0.0
    pairs.sum().backward()
    assert x.grad.abs().max().item() == 0.0


def test_a_mode_without_products_keeps_the_digits_of_close_rows() -> None:
    x = draw(30, 0) * 1e6
    y = x + 1e-3
    exact = oplib.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").diagonal()
    np.testing.assert_allclose(exact, np.sqrt(3) * 1e-3, rtol=1e-5)
    fast = oplib.cdist(x[:25], y[:25], compute_mode="use_mm_for_euclid_dist").diagonal()
    assert not np.allclose(fast, exact[:25], rtol=1e-2)  # as torch's
    np.testing.assert_array_equal(oplib.cdist(x[:25], y[:25]).diagonal(), exact[:25])


@pytest.mark.parametrize(
    ("function", "far"),
    [(name, far) for name in ("cdist", "pdist") for far in (1e8, 1e12)]
    + [("cdist", np.inf), ("cdist", np.nan)],
)
def test_a_far_row_leaves_the_gradients_of_near_rows_as_they_are(function: str, far: float) -> None:
    y = draw(30, 0)
    y[7] = far
    near = np.arange(30) != 7
    x = draw(4, 1)

    def measure(x: Any, y: Any) -> Any:
        if function == "cdist":
            return oplib.cdist(x, y)[:, near].sum()
        places = np.triu_indices(30, 1)
        is_near = near[places[0]] & near[places[1]]
        return oplib.nn.functional.pdist(y)[is_near].sum()

    def exact(x: Any, y: Any) -> Any:
        if function == "cdist":
            return find_distances(x, y[near]).sum()
        rows = y[near]
        first, second = np.triu_indices(len(rows), 1)
        return jnp.sqrt(jnp.sum(jnp.square(rows[first] - rows[second]), -1)).sum()

    found, expected = (jax.grad(find, 1)(x, y) for find in (measure, exact))
    np.testing.assert_allclose(found[near], expected[near], rtol=1e-9, atol=1e-9)


def test_distances_of_batches_map_and_broadcast_with_many_rows() -> None:
    x, y = np.stack([draw(30, 0), draw(30, 1)]), draw(7, 2)
    exact = np.stack([find_distances(one, y) for one in x])
    np.testing.assert_allclose(oplib.cdist(x, y), exact, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(oplib.cdist, (0, None))(x, y), exact, rtol=1e-12)
    assert oplib.cdist(x[:, :, :0], y[:, :0]).shape == (2, 30, 7)
    assert oplib.cdist(x[:, :0], y).shape == (2, 0, 7)
    np.testing.assert_array_equal(jax.grad(lambda x: oplib.cdist(x, y[:0]).sum())(x), np.zeros_like(x))


@pytest.mark.parametrize("order", [0.0, 1.0, 1.5, 2.0, float("inf")])
@pytest.mark.parametrize("shape", [(120, 40), (2, 40, 40)])
def test_distances_row_by_row_have_the_values_and_derivatives_of_the_differences(shape, order) -> None:
    x, y = (np.random.default_rng(seed).standard_normal((*shape, 9)) for seed in (0, 1))

    def ours(x: Any, y: Any) -> Any:
        return oplib.cdist(x, y, order, "donot_use_mm_for_euclid_dist")

    def theirs(x: Any, y: Any) -> Any:
        return jnp.linalg.norm(x[..., :, None, :] - y[..., None, :, :], order, -1)

    np.testing.assert_allclose(ours(x, y), theirs(x, y), rtol=1e-12)
    if not order:
        return

    def differentiate(find: Any) -> Any:
        gradient = jax.grad(lambda x, y: jnp.sum(jnp.sin(find(x, y))), (0, 1))
        return jax.jvp(gradient, (x, y), (y, x))

    found, expected = differentiate(ours), differentiate(theirs)
    for mine, its in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["cdist", "pdist"])
def test_the_backward_of_distances_does_not_store_the_differences(name: str) -> None:
    x = jnp.ones((300, 64))
    find = {"cdist": lambda x: oplib.cdist(x, x, 1.0), "pdist": oplib.nn.functional.pdist}[name]
    compiled = jax.jit(jax.grad(lambda x: jnp.sum(find(x)))).lower(x).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 300 * 300 * 64 * x.dtype.itemsize / 4
