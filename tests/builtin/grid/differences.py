"""Finite differences of a kernel: all points that a check needs, by one compiled loop.

The kernel is called as a plain function: neither JAX nor oplib differentiates anything here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .calls import Call, draw_weights

STEP = 1e-6  # of first differences: the error is the square of it, and rounding divided by it
WIDE = 1e-4  # of second differences, which are divided by its square


@dataclass(frozen=True)
class Differences:
    """The finite differences of a call.

    Attributes:
        value: the floating numbers of the results.
        gradient: the gradient of their weighted sum by every number of the point.
        tangent: the tangent of the results along the call's direction.
        hessian: the Hessian of the weighted sum times the direction.
        beside: the results at the point minus and plus a wide step along the direction.
    """

    value: np.ndarray
    gradient: np.ndarray
    tangent: np.ndarray
    hessian: np.ndarray
    beside: tuple[np.ndarray, np.ndarray]


@cache
def differ(call: Call) -> Differences:
    """Returns the finite differences of a call, in doubles."""
    point, along = call.point, call.direction
    axes = np.eye(point.size)
    aside = WIDE * along
    near = [point, point - aside, point + aside, point - STEP * along, point + STEP * along]
    corners = [
        point + first * WIDE * axes + second * aside for first in (-1.0, 1.0) for second in (-1.0, 1.0)
    ]
    points = np.concatenate([np.stack(near), point - STEP * axes, point + STEP * axes, *corners])
    results = np.asarray(
        jax.jit(lambda all_points: lax.map(call.run_kernel_at, all_points))(jnp.asarray(points))
    )
    value, less, more, back, forth = results[:5]
    sums = results[5:] @ draw_weights(results.shape[1])
    behind, ahead, low, left, right, high = sums.reshape(6, point.size)
    return Differences(
        value=value,
        gradient=(ahead - behind) / (2 * STEP),
        tangent=(forth - back) / (2 * STEP),
        hessian=(high - left - right + low) / (4 * WIDE**2),
        beside=(less, more),
    )
