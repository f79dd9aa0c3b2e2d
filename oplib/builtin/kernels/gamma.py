"""The gamma function, its derivatives and the zeta function: right at poles, at infinity and below -8 too.

The functions take arrays of at least single precision.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .promotion import strong


def compute_zeta(s: Any, q: Any) -> Any:
    """Returns the sum of ``(q + k) ** -s`` over k = 0, 1, ...; it has no derivative.

    JAX's function sums a fixed number of terms before its expansion, which is wrong where q + k is still
    negative after them. For negative q the terms below zero are therefore summed as a difference of two
    values at positive numbers: ``|q| - k`` goes from ``|q|`` down to the fraction of ``|q|``.
    """
    zero, one = strong(0, q), strong(1, q)
    is_whole = lax.floor(q) == q
    is_below = (q < zero) & ~is_whole & ~jnp.isinf(q)
    size = jnp.where(is_below, -q, one)
    share = size - lax.floor(size)
    result = lax.zeta(
        jnp.stack([s, s, s]), jnp.stack([jnp.where(is_below, one - share, q), share, size + one])
    )
    sign = jnp.where(lax.rem(s, strong(2, s)) == zero, one, -one)
    below = result[0] + sign * (result[1] - result[2])
    result = jnp.where(is_below, jnp.where(lax.floor(s) == s, below, strong(math.nan, q)), result[0])
    result = jnp.where(s < one, strong(math.nan, q), result)
    return jnp.where((s == one) | ((q <= zero) & is_whole & (s > one)), strong(math.inf, q), result)


@jax.custom_jvp
def compute_lgamma(x: Any) -> Any:
    """Returns the logarithm of the absolute value of the gamma function; its derivative is digamma."""
    return lax.lgamma(x)


@compute_lgamma.defjvp
def _differentiate_lgamma(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    return compute_lgamma(x), tangent * compute_polygamma(0, x)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def compute_polygamma(n: int, x: Any) -> Any:
    """Returns a derivative of digamma."""
    zero = strong(0, x)
    if not n:
        result = lax.digamma(jnp.where(x == zero, strong(1, x), x))
        return jnp.where(x == zero, jnp.copysign(strong(math.inf, x), -x), result)
    order = strong(n + 1, x)
    sign = strong(1 if n % 2 else -1, x)
    result = sign * lax.exp(lax.lgamma(order)) * compute_zeta(jnp.broadcast_to(order, x.shape), x)
    if n == 1:
        return jnp.where(jnp.isinf(x), jnp.where(x > zero, zero, strong(math.nan, x)), result)
    return result


@compute_polygamma.defjvp
def _differentiate_polygamma(n: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    return compute_polygamma(n, x), tangent * compute_polygamma(n + 1, x)
