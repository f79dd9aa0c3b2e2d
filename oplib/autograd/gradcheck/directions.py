"""Random directions. They are the same at every check, and use no generator of the user."""

from __future__ import annotations

from typing import Any

import numpy as np


def draw_directions(count: int, size: int, *, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns unit vectors with entries of both signs, none of them near zero.

    Args:
        count: the number of vectors, which are the rows of the result.
        size: the number of entries of each.
        seed: selects the vectors.
    """
    generator = np.random.default_rng(seed)
    drawn = generator.uniform(0.2, 1.0, (count, size)) * generator.choice([-1.0, 1.0], (count, size))
    return drawn / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-30)
