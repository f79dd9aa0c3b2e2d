"""Pooling over windows at random places: what is drawn, and what of torch's is not compared elsewhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.nn.functional as functional
from oplib.errors import ArgumentError

IMAGE = np.random.default_rng(0).normal(size=(2, 3, 9, 8)).astype(np.float32)


def test_the_same_seed_draws_the_same_windows():
    x = oplib.tensor(IMAGE)

    def draw(seed: int) -> np.ndarray:
        generator = oplib.Generator().manual_seed(seed)
        return functional.fractional_max_pool2d(x, 2, 5, generator=generator).numpy()

    np.testing.assert_array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))


def test_each_channel_has_windows_of_its_own():
    x = oplib.tensor(np.broadcast_to(IMAGE[:1, :1], IMAGE.shape).copy())
    _, places = functional.fractional_max_pool2d(x, 1, 4, return_indices=True)
    assert len({tuple(one.ravel()) for one in places.numpy().reshape(6, -1)}) > 1


def test_maxima_are_the_items_at_their_places():
    values, places = functional.fractional_max_pool2d_with_indices(oplib.tensor(IMAGE), 3, output_ratio=0.5)
    assert values.shape == (2, 3, 4, 4)
    flat = np.take_along_axis(IMAGE.reshape(2, 3, -1), places.numpy().reshape(2, 3, -1), -1)
    np.testing.assert_array_equal(values.numpy().reshape(2, 3, -1), flat)


def test_windows_of_half_precision_are_in_the_image():
    x = oplib.tensor(np.arange(3000.0, dtype=np.float32).reshape(1, 1, 3000), dtype=oplib.float32).half()
    _, places = functional.fractional_max_pool2d(x, (1, 2), (1, 1500), return_indices=True)
    found = places.numpy().ravel()
    assert found[-1] >= 2998
    assert (np.diff(found) >= 0).all()


def test_given_draws_are_used_under_jit():
    @jax.jit
    def pool(x: jax.Array, samples: jax.Array) -> jax.Array:
        return functional.fractional_max_pool3d(x, 1, 2, _random_samples=samples)

    x, samples = jnp.asarray(IMAGE[None, :1, :3]), jnp.zeros((1, 1, 3), jnp.float32)
    assert pool(x, samples).shape == (1, 1, 2, 2, 2)


def test_neither_size_nor_ratio_is_refused():
    with pytest.raises(ArgumentError, match="requires specifying either an output_size or an output_ratio"):
        functional.fractional_max_pool2d(oplib.tensor(IMAGE), 2)
