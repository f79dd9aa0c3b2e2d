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
    result = jnp.where(is_below, jnp.where(lax.floor(s) == s, below, math.nan), result[0])
    # Far out the sum is an integral; JAX's function takes the square of q, which is inf there.
    is_far = (q > 1 / jnp.finfo(q.dtype).eps ** 2) & ~jnp.isinf(q)
    result = jnp.where(is_far, lax.pow(jnp.where(is_far, q, one), one - s) / (s - one), result)
    result = jnp.where(s < one, math.nan, result)
    limit = jnp.where(q == one, one, jnp.where(q > one, zero, math.inf))
    result = jnp.where((s == math.inf) & (q > zero), limit, result)
    return jnp.where((s == one) | ((q <= zero) & is_whole & (s > one)), math.inf, result)


_AROUND_2 = (
    -1.1921401405860912e-09, 2.4836745438024785e-09, -5.183475041970047e-09, 1.0838659214896955e-08,
    -2.2711094608943164e-08, 4.7698101693639804e-08, -1.0043224823968099e-07, 2.1207184805554665e-07,
    -4.492469198764566e-07, 9.55141213040742e-07, -2.039215753801366e-06, 4.374866789907488e-06,
    -9.439488275268397e-06, 2.050721277567069e-05, -4.492623673813314e-05, 9.945751278180853e-05,
    -0.00022315475845357939, 0.0005096695247430425, -0.001192753911703261, 0.0028905103307415234,
    -0.007385551028673986, 0.020580808427784546, -0.0673523010531981, 0.3224670334241132,
    0.42278433509846713,
)  # fmt: skip
"""The factors of the powers of d in lgamma(2 + d), the highest first: (-1)^k (zeta(k) - 1) / k, and 1 - c."""


@jax.custom_jvp
def compute_lgamma(x: Any) -> Any:
    """Returns the logarithm of the absolute value of the gamma function; its derivative is digamma.

    Between 1/2 and 5/2 it is a series around 2, which keeps the zeros at 1 and 2 and the digits near them;
    XLA's function gives 5e-7 at 1 in single precision.
    """
    is_below = x < 1.5
    near = (x > 0.5) & (x < 2.5)
    at = jnp.where(near, x, 2)
    d = jnp.where(is_below & near, at - 1, at - 2)
    series = strong(0, x)
    for factor in _AROUND_2:
        series = series * d + factor
    series = series * d
    return jnp.where(near, jnp.where(is_below, series - lax.log1p(d), series), lax.lgamma(x))


@compute_lgamma.defjvp
def _differentiate_lgamma(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    return compute_lgamma(x), tangent * compute_polygamma(0, x)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def compute_polygamma(n: int, x: Any) -> Any:
    """Returns a derivative of digamma."""
    zero = strong(0, x)
    if not n:
        result = lax.digamma(jnp.where(x == zero, 1, x))
        return jnp.where(x == zero, jnp.copysign(strong(math.inf, x), -x), result)
    order = strong(n + 1, x)
    sign = strong(1 if n % 2 else -1, x)
    result = sign * lax.exp(lax.lgamma(order)) * compute_zeta(jnp.broadcast_to(order, x.shape), x)
    if n == 1:
        return jnp.where(jnp.isinf(x), jnp.where(x > zero, zero, math.nan), result)
    return result


@compute_polygamma.defjvp
def _differentiate_polygamma(n: int, primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    return compute_polygamma(n, x), tangent * compute_polygamma(n + 1, x)
