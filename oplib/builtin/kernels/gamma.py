"""The gamma function and its derivatives, correct at poles and at infinity, where JAX's are nan."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .promotion import strong


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
    """Returns a derivative of digamma.

    Args:
        n: the order of the derivative of digamma.
        x: an array of at least single precision.
    """
    zero = strong(0, x)
    if not n:
        found = lax.digamma(jnp.where(x == zero, strong(1, x), x))
        return jnp.where(x == zero, jnp.copysign(strong(math.inf, x), -x), found)
    found = lax.polygamma(jnp.full_like(x, n), x)
    if n == 1:
        at_end = jnp.where(x > zero, zero, strong(math.nan, x))
        return jnp.where(jnp.isinf(x), at_end, found)
    is_pole = (x <= zero) & (lax.floor(x) == x)
    return jnp.where(is_pole, strong(math.inf if n % 2 else -math.inf, x), found)


@compute_polygamma.defjvp
def _differentiate_polygamma(n: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    return compute_polygamma(n, x), tangent * compute_polygamma(n + 1, x)
