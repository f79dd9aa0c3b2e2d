"""Bessel functions of orders 0 and 1, and the Airy function Ai: polynomials near 0, expansions further out.

The functions take arrays of at least single precision. The polynomials are those of
``bessel_coefficients.txt``. JAX differentiates the code of this module: each piece reads a number of its own
where an item belongs to another piece, so that no gradient becomes nan there. For large arguments the phase
``x - pi / 4`` is not subtracted, which would lose digits: the sine and cosine of x are combined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pkgutil import get_data
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from .rational import sum_powers

Numbers = Sequence[float]
_EDGE = 8.0  # where J and Y begin to be waves
_LOW, _NEAR = -4.0, 1.5  # where Ai begins to be a wave; where its polynomial around 0 ends


class _Order(NamedTuple):
    """The polynomials of the functions of one order."""

    j: Numbers
    y: Numbers
    p: Numbers
    q: Numbers
    zeros: Numbers
    near: Numbers
    far: Numbers


def _read_numbers() -> dict[str, Numbers]:
    """Returns the powers of each polynomial by its name. Each is in powers of t, the highest first."""
    text = (get_data(__name__, "bessel_coefficients.txt") or b"").decode()
    rows = [row.split() for row in text.replace("\n ", "").splitlines()]
    return {name: tuple(map(float, numbers)) for name, *numbers in rows}


_NUMBERS = _read_numbers()
_OF_ORDER = ("J{}", "Y{}", "P{}", "Q{}", "ZEROS{}", "K{}_NEAR", "K{}_FAR")
_ORDERS = [_Order(*[_NUMBERS[name.format(order)] for name in _OF_ORDER]) for order in (0, 1)]

_SERIES = [
    [(-0.25) ** k / (math.factorial(k) * math.factorial(k + order) * 2**order) for k in range(9, -1, -1)]
    for order in (0, 1)
]


def compute_j(order: int, x: Any) -> Any:
    """Returns the Bessel function of the first kind; nan at infinity, as torch's and SciPy's."""
    is_far = jnp.abs(x) > _EDGE
    size = jnp.where(is_far, jnp.where(x < 0, -x, x), _EDGE)
    far, _ = _find_waves(order, size)
    if order:
        far = jnp.where(x < 0, -far, far)
    return jnp.where(is_far, far, _sum_near(order, jnp.where(is_far, 0, x)))


def compute_y(order: int, x: Any) -> Any:
    """Returns the Bessel function of the second kind; nan below 0 and at infinity."""
    is_far, is_near = x > _EDGE, (x > 0) & (x <= _EDGE)
    _, far = _find_waves(order, jnp.where(is_far, x, _EDGE))
    inner = jnp.where(is_near, x, 1)
    smooth = sum_powers(_ORDERS[order].y, _scale_square(inner, _EDGE))
    singular = lax.log(inner) * _sum_near(order, inner)
    if order:
        smooth, singular = smooth * inner, singular - 1 / inner
    near = smooth + (2 / math.pi) * singular
    return _join(x, (is_near, near), (is_far, far), at_zero=-math.inf)


def compute_k(order: int, x: Any, *, is_scaled: bool = False) -> Any:
    """Returns the modified Bessel function of the second kind; nan below 0."""
    is_far, is_near = x > 2, (x > 0) & (x <= 2)
    outer, inner = jnp.where(is_far, x, 2), jnp.where(is_near, x, 1)
    share = 2 / outer
    far = sum_powers(_ORDERS[order].far, share + share - 1) / lax.sqrt(outer)
    smooth = sum_powers(_ORDERS[order].near, _scale_square(inner, 2.0))
    growth = lax.exp(inner)
    if order:
        near = 1 / inner + smooth * inner + lax.log(inner) * growth * lax.bessel_i1e(inner)
    else:
        near = smooth - lax.log(inner) * growth * lax.bessel_i0e(inner)
    near, far = (near * growth, far) if is_scaled else (near, far * lax.exp(-outer))
    return _join(x, (is_near, near), (is_far, far), at_zero=math.inf)


def compute_airy(x: Any) -> Any:
    """Returns the Airy function Ai; 0 at infinity, nan at minus infinity."""
    edge = _NEAR
    is_low, is_high, is_near = x < _LOW, x > edge, jnp.abs(x) <= edge
    is_below = (x >= _LOW) & (x < -edge)
    inner = jnp.where(is_below, x, -edge)
    scaled = (2 / (-_NEAR - _LOW)) * (inner - _LOW) - 1
    below = _multiply_zeros(_NUMBERS["AI_ZEROS"], inner) * sum_powers(_NUMBERS["AI_BELOW"], scaled)
    near = sum_powers(_NUMBERS["AI_NEAR"], jnp.where(is_near, x, 0) / edge)
    outer = jnp.where(is_high & ~jnp.isinf(x), x, edge)
    phase, root = _find_phase(outer)
    share = _find_edge(_NEAR) / phase
    high = sum_powers(_NUMBERS["AI_HIGH"], share + share - 1) * lax.exp(-phase) / root
    phase, root = _find_phase(jnp.where(is_low, -x, -_LOW))
    share = _find_edge(-_LOW) / phase
    square = 2 * share * share - 1
    p, q = sum_powers(_NUMBERS["AI_P"], square), sum_powers(_NUMBERS["AI_Q"], square) / phase
    sine, cosine = lax.sin(phase), lax.cos(phase)
    low = math.sqrt(0.5) * (p * (cosine + sine) + q * (sine - cosine)) / root
    result = _join(x, (is_below, below), (is_near, near), (is_high, high), (is_low, low), at_zero=None)
    return jnp.where(x == math.inf, 0, result)


def _sum_near(order: int, x: Any) -> Any:
    """Evaluates J from -8 to 8: by its power series, and from 1 on with its zeros as factors.

    Near its zeros it keeps its digits, and so does its derivative near 0.
    """
    mine = _ORDERS[order]
    is_inner = jnp.abs(x) < 1
    inner = jnp.where(is_inner, x, 0)
    series = sum_powers(_SERIES[order], inner * inner)
    outer = jnp.where(is_inner, 1, x)
    result = sum_powers(mine.j, _scale_square(outer, _EDGE)) * _multiply_zeros(mine.zeros, outer)
    result = result * _multiply_zeros([-number for number in mine.zeros], outer)
    result = jnp.where(is_inner, series, result)
    return result * x if order else result


def _multiply_zeros(zeros: Numbers, x: Any) -> Any:
    """Multiplies the distances of x from zeros, which are given in two parts."""
    product = 1.0
    for high, low in zip(zeros[::2], zeros[1::2], strict=True):
        # Without the barrier XLA adds both parts, and rounds the zero.
        product = product * (lax.optimization_barrier(x - high) - low)
    return product


def _scale_square(x: Any, edge: float) -> Any:
    """Returns a number that goes from -1 to 1 with the square of x, from 0 to the edge."""
    return (2 / edge**2) * x * x - 1


def _find_waves(order: int, x: Any) -> tuple[Any, Any]:
    """Evaluates J and Y from 8 on by Hankel's expansions, whose slowly varying parts are P and Q."""
    mine = _ORDERS[order]
    share = _EDGE / x
    square = 2 * share * share - 1
    p, q = sum_powers(mine.p, square), sum_powers(mine.q, square) / x
    sine, cosine = lax.sin(x), lax.cos(x)
    turned = (sine - cosine, -sine - cosine) if order else (cosine + sine, sine - cosine)
    scale = math.sqrt(1 / math.pi) / lax.sqrt(x)
    return scale * (p * turned[0] - q * turned[1]), scale * (p * turned[1] + q * turned[0])


def _find_phase(x: Any) -> tuple[Any, Any]:
    """Returns 2 / 3 x ** 1.5, and the fourth root of x."""
    root = lax.sqrt(x)
    return (2 / 3) * x * root, lax.sqrt(root)


def _find_edge(x: float) -> float:
    return 2 / 3 * x**1.5


def _join(x: Any, *pieces: tuple[Any, Any], at_zero: float | None) -> Any:
    """Puts pieces together; where x is in none, the result is nan, or a given value at 0."""
    result = math.nan if at_zero is None else jnp.where(x == 0, at_zero, math.nan)
    result = jnp.broadcast_to(lax.convert_element_type(result, x.dtype), x.shape)
    for is_inside, value in pieces:
        result = jnp.where(is_inside, value, result)
    return result
