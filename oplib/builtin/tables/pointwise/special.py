"""Special functions: of the normal distribution, and Bessel, gamma and zeta functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from oplib.builtin.rows.row import DERIVED, ItemRow, Row, from_output, save_inputs
from oplib.builtin.shared_kernels.gamma import compute_lgamma, compute_polygamma, compute_zeta
from oplib.builtin.shared_kernels.promotion import elementwise, in_single, on_floating, strong
from oplib.builtin.shared_kernels.rational import FAR, MIDDLE, divide_polynomials
from oplib.errors import ArgumentError, MissingRuleError, describe
from oplib.importing import LateImports
from oplib.library import Derivative

from .further_arithmetic import divide_sine, replace_unless_finite
from .shared_rows import make_pairs

_ROOT_OF_HALF = math.sqrt(0.5)

# The normal distribution ------------------------------------------------------------------------------------


def _erfcx(x: Any) -> Any:
    """Returns exp(x * x) * erfc(x): by the definition near 0, by W. J. Cody's quotients further out."""
    finite = jnp.where(x == -jnp.inf, -1, x)  # the other term is inf there
    size = jnp.where(x < 0, -finite, finite)
    is_near, is_far = size < 0.5, size > 4
    near = jnp.where(is_near, x, 0)
    middle = jnp.where(is_near | is_far, 1, size)
    far = jnp.where(is_far, size, 5)
    inverse = 1 / (far * far)
    series = inverse * divide_polynomials(FAR, inverse)
    away = jnp.where(is_far, (1 / math.sqrt(math.pi) - series) / far, divide_polynomials(MIDDLE, middle))
    below = jnp.where((x < 0) & ~is_near, x, 0)
    turned = jnp.where(x < 0, 2 * lax.exp(below * below) - away, away)
    result = jnp.where(is_near, lax.exp(near * near) * lax.erfc(near), turned)
    return jnp.where(jnp.isnan(x), x, result)


def _ndtr(x: Any) -> Any:
    return 0.5 * lax.erfc(x * -_ROOT_OF_HALF)


def _log_ndtr(x: Any) -> Any:
    scaled = x * _ROOT_OF_HALF
    is_low = x < -1
    low, high = (jnp.where(mask, scaled, 0) for mask in (is_low & ~jnp.isinf(x), ~is_low | jnp.isinf(x)))
    tail = lax.log(0.5 * _erfcx(-low)) - low * low
    return jnp.where(is_low & ~jnp.isinf(x), tail, lax.log1p(-0.5 * lax.erfc(high)))


def _log_ndtr_backward(ctx: Any, g: Any) -> Any:
    """Computes density / probability; below 0 without the two, which vanish."""
    (x,) = ctx.saved_tensors
    is_low = x < 0
    low, high = jnp.where(is_low, x, 0), jnp.where(is_low, 0, x)
    density = _ROOT_OF_HALF * lax.exp(high * high * -0.5) / _ndtr(high)
    slope = jnp.where(is_low, math.sqrt(2) / _erfcx(low * -_ROOT_OF_HALF), density)
    return g * slope * (1 / math.sqrt(math.pi))


_scipy = LateImports("jax.scipy", {"ndtri": "special"})  # its import takes half the time of importing oplib


def _ndtri(p: Any) -> Any:
    return _scipy["ndtri"](p)


def _ndtri_backward(g: Any, y: Any) -> Any:
    return g * math.sqrt(2 * math.pi) * lax.exp(0.5 * y * y)


def _unary(name: str, function: Any, doc: str, derivative: Derivative = DERIVED, dtypes: str = "bihf") -> Row:
    """Makes a row of ``oplib.special`` for a function of real items."""
    return ItemRow(
        f"special_{name}(Tensor self) -> Tensor",
        on_floating(function),
        doc,
        derivative=derivative,
        dtypes=dtypes,
        result="floats",
    )


NORMAL = (
    _unary("ndtr", _ndtr, "probability that a standard normal variable is below self"),
    _unary("ndtri", _ndtri, "inverse of ndtr", from_output(_ndtri_backward), "bif"),
    _unary(
        "log_ndtr",
        _log_ndtr,
        "logarithm of ndtr, accurate where ndtr vanishes",
        Derivative(backward=_log_ndtr_backward, setup_context=save_inputs),
        "bif",
    ),
    _unary("erfcx", _erfcx, "exp(self * self) * erfc(self), which does not vanish", dtypes="bif"),
)

# Entropy, logarithms ----------------------------------------------------------------------------------------


def _entr(x: Any) -> Any:
    is_positive = x > 0
    safe = jnp.where(is_positive, x, 1)
    elsewhere = jnp.where(x < 0, -math.inf, x - x)  # 0 at 0, and nan for nan
    return jnp.where(is_positive, -safe * lax.log(safe), elsewhere)


def _entr_backward(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return g * (-1 - lax.log(x))


def _xlog1py(x: Any, y: Any) -> Any:
    """Returns x * log1p(y), and 0 where x is 0, unless y is nan."""
    return x * lax.log1p(replace_unless_finite(x, y, lax.log1p, 0))


# Bessel functions -------------------------------------------------------------------------------------------


def _i1(x: Any) -> Any:
    """Sums the series near 0, where JAX's second derivative is a difference of large numbers."""
    is_small = lax.abs(x) < 1
    near, away = jnp.where(is_small, x, 0), jnp.where(is_small, 1, x)
    series = 1.0
    for k in range(9, 0, -1):
        series = 1 + near * near * series / (4 * k * (k + 1))
    return jnp.where(is_small, 0.5 * near * series, lax.exp(lax.abs(away)) * lax.bessel_i1e(away))


def _spherical_j0(x: Any) -> Any:
    is_infinite = jnp.isinf(x)
    return jnp.where(is_infinite, 0, divide_sine(jnp.where(is_infinite, 1, x)))


_bessel = LateImports(
    "oplib.builtin.shared_kernels",
    dict.fromkeys(("compute_airy", "compute_j", "compute_k", "compute_y"), "bessel"),
)  # long tables of numbers, which few programs need


def _run_bessel(name: str, *arguments: Any, **options: Any) -> Any:
    return _bessel[name](*arguments, **options)


def _orders(name: str, function: str, doc: str, **options: Any) -> tuple[Row, ...]:
    """Makes the rows of a function of orders 0 and 1."""
    kernels = [functools.partial(_run_bessel, function, order, **options) for order in (0, 1)]
    return tuple(
        _unary(name.format(order), kernel, doc.format(order), dtypes="bif")
        for order, kernel in enumerate(kernels)
    )


BESSEL = (
    _unary("i0e", lax.bessel_i0e, "exp(-abs(self)) * i0(self)"),
    _unary("i1", _i1, "modified Bessel function of the first kind and order 1"),
    _unary("i1e", lax.bessel_i1e, "exp(-abs(self)) * i1(self)"),
    _unary(
        "spherical_bessel_j0",
        _spherical_j0,
        "spherical Bessel function of the first kind and order 0, sin(self) / self",
        dtypes="bif",
    ),
    *_orders("bessel_j{}", "compute_j", "Bessel function of the first kind and order {}"),
    *_orders("bessel_y{}", "compute_y", "Bessel function of the second kind and order {}; nan below 0"),
    *_orders("modified_bessel_k{}", "compute_k", "modified Bessel function of the second kind and order {}"),
    *_orders(
        "scaled_modified_bessel_k{}",
        "compute_k",
        "exp(self) * modified_bessel_k{}(self), which does not vanish",
        is_scaled=True,
    ),
    _unary("airy_ai", functools.partial(_run_bessel, "compute_airy"), "Airy function Ai", dtypes="bif"),
)

# Gamma and zeta functions -----------------------------------------------------------------------------------


@jax.custom_jvp
def _zeta(s: Any, q: Any) -> Any:
    return compute_zeta(s, q)


@functools.partial(_zeta.defjvp, symbolic_zeros=True)
def _differentiate_zeta(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Computes a derivative that JAX does not have."""
    (s, q), (of_s, of_q) = primals, tangents
    if not isinstance(of_s, SymbolicZero):
        raise MissingRuleError(
            f"special.zeta: it has no derivative by its first argument, as in torch. Got {describe(s)}, "
            "which requires grad. Detach it."
        )
    value = _zeta(s, q)
    if isinstance(of_q, SymbolicZero):
        return value, jnp.zeros_like(value)
    return value, -s * _zeta(s + 1, q) * of_q


def _polygamma(self: Any, n: int) -> Any:
    if n < 0:
        raise ArgumentError(
            "polygamma(n, x) does not support negative n",
            "Give how many times digamma is to be differentiated.",
        )

    return on_floating(lambda x: compute_polygamma(n, x))(self)


def _mvlgamma(self: Any, p: int) -> Any:
    if p < 1:
        raise ArgumentError("p has to be greater than or equal to 1", "Give the count of dimensions.")

    def compute(x: Any) -> Any:
        shares = [compute_lgamma(x - 0.5 * index) for index in range(p)]
        return sum(shares, strong(p * (p - 1) / 4 * math.log(math.pi), x))

    return on_floating(compute)(self)


def _pairs(name: str, function: Any, doc: str, dtypes: str, missing: str = "") -> tuple[Row, ...]:
    """Makes rows of a function of two operands; ``missing`` says why the first has no derivative."""
    return make_pairs(
        f"special_{name}",
        elementwise(in_single(function), floating=True),
        doc,
        derivatives={"Scalar": Derivative(missing=missing)} if missing else None,
        in_place=False,
        dtypes=dtypes,
        result="floats",
    )


def _complete_gamma(compute: Any, at_zero: float, a: Any, x: Any) -> Any:
    """Adds the limits at a = 0, a = inf and x = inf, where XLA gives nan or a gradient of nan."""
    is_whole = ((a == 0) & (x > 0)) | ((x == math.inf) & (a >= 0) & (a < math.inf))
    is_limit = is_whole | ((a == math.inf) & (x >= 0) & (x < math.inf))
    found = compute(jnp.where(is_limit, 1, a), jnp.where(is_limit, 1, x))
    return jnp.where(is_limit, jnp.where(is_whole, at_zero, 1 - at_zero), found)


def _incomplete(name: str, function: Any, at_zero: float, doc: str) -> Row:
    return ItemRow(
        f"{name}(Tensor self, Tensor other) -> Tensor",
        elementwise(in_single(functools.partial(_complete_gamma, function, at_zero))),
        doc,
        in_place=True,
        dtypes="hf",
    )


ROWS = (
    *NORMAL,
    _unary(
        "entr",
        _entr,
        "-self * log(self), and 0 at 0",
        Derivative(backward=_entr_backward, setup_context=save_inputs),
    ),
    *_pairs("xlog1py", _xlog1py, "self * log(1 + other), and 0 where self is 0", "bihf"),
    *BESSEL,
    *_pairs(
        "zeta",
        _zeta,
        "sum of (other + k) ** -self over k = 0, 1, ...",
        "bif",
        missing="torch has none either, by the first argument",
    ),
    ItemRow(
        "polygamma(Tensor self, int n) -> Tensor",
        _polygamma,
        "n-th derivative of digamma; the function takes n first",
        in_place=True,
        dtypes="bihf",
        result="mixed",
    ),
    ItemRow(
        "mvlgamma(Tensor self, int p) -> Tensor",
        _mvlgamma,
        "logarithm of the multivariate gamma function with dimension p",
        in_place=True,
        dtypes="ihf",
        result="mixed",
    ),
    _incomplete(
        "igamma",
        lax.igamma,
        1.0,
        "lower incomplete gamma function of self at other, regularised",
    ),
    _incomplete(
        "igammac",
        lax.igammac,
        0.0,
        "1 - igamma(self, other), accurate where igamma is near 1",
    ),
)
