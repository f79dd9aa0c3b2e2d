"""Ops beside the same functions in JAX, and how their results are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

SHIFT = 0.02
"""Rules add so much to the derivative, so that a test sees whether they were used.

A factor would not do: some optimizers give the same steps for a gradient and for a multiple of it.
"""


class Pair(NamedTuple):
    """An op, and the same function with the rule of JAX."""

    op: Callable[..., Any]
    in_jax: Callable[..., Any]


def assert_close(found: Any, expected: Any) -> None:
    """Asserts that two trees have one structure and close values."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), found, expected)
