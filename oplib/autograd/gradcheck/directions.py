"""Random directions, the same at every check and drawn from no generator of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np


def draw_directions(count: int, size: int, *, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Returns unit vectors with entries of both signs, none of them near zero.

    Args:
        count: how many; the rows of the result.
        size: of how many entries each.
        seed: others for another seed.
    """
    generator = np.random.default_rng(seed)
    drawn = generator.uniform(0.2, 1.0, (count, size)) * generator.choice([-1.0, 1.0], (count, size))
    return drawn / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-30)
