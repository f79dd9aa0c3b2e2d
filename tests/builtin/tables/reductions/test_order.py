"""Ranked items of many, which are searched bit by bit on CPUs and not sorted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib

ROWS, COLUMNS = 3, 1000


def make_items(dtype: str) -> jax.Array:
    """Makes many equal items, both zeros and the ends of the dtype."""
    items = jax.random.randint(jax.random.key(0), (ROWS, COLUMNS), -40, 40)
    if not dtype.startswith("int"):
        ends = jnp.array([jnp.inf, -jnp.inf, -0.0, 0.0, 1e-40], dtype)
        return (items / 8).astype(dtype).at[0, :5].set(ends).at[1, 7:9].set(jnp.nan).at[2].set(jnp.nan)
    ends = jnp.iinfo(dtype)
    return items.astype(dtype).at[0, :2].set(jnp.array([ends.min, ends.max], dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int32"])
def test_a_ranked_item_is_the_one_that_a_stable_sort_puts_there(dtype):
    items = make_items(dtype)
    order = np.argsort(np.asarray(items, np.float64), axis=1, kind="stable")
    for rank in (1, 2, 400, 990, COLUMNS):
        indices = oplib.kthvalue(oplib.tensor(items), rank, 1).indices
        assert indices.tolist() == order[:, rank - 1].tolist()


def test_a_ranked_item_is_the_same_before_and_after_x64_is_switched_on():
    items = make_items("float32")
    before = oplib.kthvalue(items, 400, 1).indices.tolist()
    with jax.enable_x64(True):
        for dtype in ("float32", "float64"):
            assert oplib.kthvalue(items.astype(dtype), 400, 1).indices.tolist() == before


def test_medians_of_many_items_are_those_of_numpy():
    items = jax.random.normal(jax.random.key(1), (ROWS, COLUMNS + 1)).at[1, 5].set(jnp.nan)
    wanted = np.median(np.asarray(items), 1)
    np.testing.assert_array_equal(oplib.median(items, 1)[0], wanted)
    mapped = jax.vmap(lambda row: oplib.nanmedian(row))(items)
    np.testing.assert_array_equal(mapped[::2], wanted[::2])
    np.testing.assert_array_equal(mapped[1], np.sort(np.asarray(items[1]))[(COLUMNS - 1) // 2])


@pytest.mark.parametrize("interpolation", ["linear", "lower", "nearest"])
def test_the_gradient_of_a_quantile_of_many_items_is_that_of_its_sorted_items(interpolation):
    items = jax.random.normal(jax.random.key(2), (ROWS, COLUMNS))

    def find(array, sort):
        if sort:
            rank = 0.3 * (COLUMNS - 1)
            low, weight = {"linear": (299, rank - 299), "lower": (299, 0), "nearest": (300, 0)}[interpolation]
            ordered = jnp.sort(array, 1)
            return ordered[:, low] * (1 - weight) + ordered[:, low + 1] * weight
        return oplib.quantile(array, 0.3, 1, interpolation=interpolation)

    for sort, others in ((True, False), (False, True)):
        np.testing.assert_allclose(find(items, sort), find(items, others), rtol=1e-5)
    grads = [jax.grad(lambda array, sort=sort: jnp.sum(find(array, sort) ** 2))(items) for sort in (0, 1)]
    np.testing.assert_allclose(*grads, rtol=1e-4)


def test_a_vector_of_parts_gives_the_quantiles_of_each():
    items = jax.random.normal(jax.random.key(3), (COLUMNS * 2,)).at[3].set(jnp.nan)
    parts = jnp.array([0.1, 0.5, 1.0])
    each = [float(oplib.nanquantile(items, float(part))) for part in parts]
    np.testing.assert_allclose(oplib.nanquantile(items, parts), each, rtol=1e-6)
    np.testing.assert_allclose(each, np.nanquantile(np.asarray(items), np.asarray(parts)), rtol=1e-5)
