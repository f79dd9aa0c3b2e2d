"""Functions of many singles by formulas in doubles, which XLA vectorises on CPUs.

XLA calls scalar code for its own there, which takes 2 to 20 times as long. The results are rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Function = Callable[..., Any]
_MANY = 4096
"""So many items are computed in doubles."""


def in_doubles(
    own: Function, formula: Function, is_beyond: Function | None = None, push: Function | None = None
) -> Function:
    """Returns a function like JAX's ``own``.

    Args:
        own: serves other dtypes, few items, and other platforms.
        formula: the same of doubles.
        is_beyond: tells for which items the formula is not exact; ``own`` serves these.
        push: ``push(x, tangent)`` is the tangent of the result; by default that of ``own``.
    """

    def compute(*arrays: Any) -> Any:
        with jax.enable_x64(True):
            wide = formula(*(lax.convert_element_type(array, np.float64) for array in arrays))
            return lax.convert_element_type(wide, np.float32)

    def choose(*arrays: Any) -> Any:
        found = compute(*arrays)
        if is_beyond is None:
            return found
        is_far = is_beyond(*arrays)
        # A loop, as a condition would compute both under jax.vmap.
        return lax.while_loop(
            lambda state: state[1],
            lambda state: (jnp.where(is_far, own(*arrays), state[0]), state[1] & False),
            (found, jnp.any(is_far)),
        )[0]

    @jax.custom_jvp
    def compute_many(*arrays: Any) -> Any:
        return lax.platform_dependent(*arrays, cpu=choose, default=own)

    @compute_many.defjvp
    def differentiate(primals: Any, tangents: Any) -> tuple[Any, Any]:
        along = push(*primals, *tangents) if push else jax.jvp(own, primals, tangents)[1]
        return compute_many(*primals), along

    def function(*arrays: Any) -> Any:
        array = arrays[0]
        is_many = isinstance(array.size, int) and array.size >= _MANY  # an exported program takes any size
        return (compute_many if is_many and array.dtype == np.float32 else own)(*arrays)

    return function


# Angles -----------------------------------------------------------------------------------------------------

_SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(6))
_COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(7))
_ARC = tuple((-1) ** k / (2 * k + 1) for k in range(12))
# A quarter of a circle in two parts: the product of the first and of a count up to 2 ** 20 is exact.
_QUARTER, _REST = 1.5707963267341256, 6.077100506506192e-11


def _sum_powers(x: Any, factors: tuple[float, ...]) -> Any:
    return reduce(lambda total, factor: total * x + factor, factors[::-1], 0.0)


def _turn(x: Any) -> tuple[Any, Any, Any]:
    """Returns the number of quarters to the nearest axis, and sine and cosine of the rest."""
    count = lax.round(x / (_QUARTER + _REST), lax.RoundingMethod.TO_NEAREST_EVEN)
    rest = jnp.where(count == 0, x, x - count * _QUARTER - count * _REST)  # zeros keep their sign
    square = rest * rest
    return (
        lax.convert_element_type(count, np.int32),
        rest * _sum_powers(square, _SINE),
        _sum_powers(square, _COSINE),
    )


def _make_wave(shift: int) -> Function:
    def compute(x: Any) -> Any:
        count, sine, cosine = _turn(x)
        quarter = count + np.int32(shift)
        wave = jnp.where(quarter & 1, cosine, sine)
        return jnp.where(quarter & 2, -wave, wave)

    return compute


def _compute_tangent(x: Any) -> Any:
    count, sine, cosine = _turn(x)
    is_turned = count & 1
    return jnp.where(is_turned, -cosine, sine) / jnp.where(is_turned, sine, cosine)


def _is_far(x: Any) -> Any:
    return (lax.abs(x) > 1e6) & (lax.abs(x) < np.inf)


def _compute_angle(y: Any, x: Any) -> Any:
    """Computes the angle to the nearer axis, or to the diagonal, by its series."""
    sides = lax.abs(y), lax.abs(x)
    short, long = lax.min(lax.min(*sides), 1e300), lax.clamp(1e-300, lax.max(*sides), 1e300)
    is_wide = short > long * (math.sqrt(2) - 1)
    ratio = jnp.where(is_wide, short - long, short) / jnp.where(is_wide, short + long, long)
    angle = ratio * _sum_powers(ratio * ratio, _ARC) + jnp.where(is_wide, math.pi / 4, 0)
    angle = jnp.where(sides[0] > sides[1], math.pi / 2 - angle, angle)
    return jnp.copysign(jnp.where(jnp.signbit(x), math.pi - angle, angle), y)


def _complete(x: Any) -> Any:
    """Returns the other side of a triangle with a right angle."""
    return lax.sqrt((1 - x) * (1 + x))


sin = in_doubles(lax.sin, _make_wave(0), _is_far, lambda x, t: t * cos(x))
cos = in_doubles(lax.cos, _make_wave(1), _is_far, lambda x, t: -t * sin(x))
tan = in_doubles(lax.tan, _compute_tangent, _is_far, lambda x, t: t * (1 + lax.square(tan(x))))
atan2 = in_doubles(lax.atan2, _compute_angle)
atan = in_doubles(lax.atan, lambda x: _compute_angle(x, jnp.ones_like(x)))
asin = in_doubles(lax.asin, lambda x: _compute_angle(x, _complete(x)))
acos = in_doubles(lax.acos, lambda x: _compute_angle(_complete(x), x))

# Remainders -------------------------------------------------------------------------------------------------


def _compute_remainder(x: Any, y: Any) -> Any:
    size, step = lax.abs(x), lax.abs(y)
    rest = size - jnp.where(jnp.isinf(y) & (size < np.inf), 0, jnp.trunc(size / step) * step)
    return jnp.copysign(rest, x)


def _has_large_quotient(x: Any, y: Any) -> Any:
    return (lax.abs(x) >= 2.0**28 * lax.abs(y)) & (lax.abs(x) < np.inf) & (y != 0)


rem = in_doubles(lax.rem, _compute_remainder, _has_large_quotient)
