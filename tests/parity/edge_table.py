"""Functions at the edges of floats: expressions of ``lib``, ``F`` (its nn.functional), ``x`` and ``y``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

_PLAIN = (
    "abs absolute acos acosh angle arccos arctan asin asinh atan atanh ceil clone conj cos cosh "
    "deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac i0 isfinite isinf isnan isneginf "
    "isposinf isreal lgamma log log10 log1p log2 logical_not logit nan_to_num neg negative positive "
    "rad2deg ravel real reciprocal relu round rsqrt sigmoid sign signbit sin sinc sinh sqrt square "
    "tan tanh trunc"
)
_SPECIAL = (
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx erfinv exp2 expit "
    "expm1 gammaln i0 i0e i1 i1e log1p log_ndtr logit modified_bessel_i0 modified_bessel_i1 "
    "modified_bessel_k0 modified_bessel_k1 ndtr ndtri psi round scaled_modified_bessel_k0 "
    "scaled_modified_bessel_k1 sinc spherical_bessel_j0"
)
_LAYERS = (
    "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 "
    "selu sigmoid silu softplus softshrink softsign tanh tanhshrink"
)
_DEGREES = (
    *[f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"],
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
)
ITEMS: dict[str, str] = {
    **{name: f"lib.{name}(x)" for name in _PLAIN.split()},
    **{f"special.{name}": f"lib.special.{name}(x)" for name in _SPECIAL.split()},
    **{f"F.{name}": f"F.{name}(x)" for name in _LAYERS.split()},
    **{f"x ** {power}": f"x ** {power}" for power in (0, 1, 2, 3, -1, -2, 0.5, 1.5, -0.5)},
    **{f"{base} ** x": f"{base} ** x" for base in (0.0, 1.0, 2.0, 0.5)},
    **{f"polygamma {n}": f"lib.polygamma({n}, x)" for n in (0, 1, 2)},
    **{f"{name} {n}": f"lib.special.{name}(x, {n})" for name in _DEGREES for n in (1, 3)},
    "gelu by tanh": "F.gelu(x, approximate='tanh')",
    "softplus of 2": "F.softplus(x, beta=2.0, threshold=3.0)",
    "threshold": "F.threshold(x, 0.5, 2.0)",
    "elu of 2": "F.elu(x, 2.0)",
    "celu of 2": "F.celu(x, 2.0)",
    "logit within": "lib.logit(x, eps=0.1)",
    "mvlgamma": "lib.mvlgamma(x, 2)",
    "clamp": "lib.clamp(x, -1.0, 1.0)",
    "clamp_min": "lib.clamp_min(x, 1.0)",
    "clamp_max": "lib.clamp_max(x, -1.0)",
    "x + 1": "x + 1.0",
    "1 - x": "1.0 - x",
    "x * 0": "x * 0.0",
    "x / 0": "x / 0.0",
    "x / 3": "x / 3.0",
    "1 / x": "1.0 / x",
    "0 / x": "0.0 / x",
    "x // 3": "x.detach() // 3.0",
    "x % 3": "x % 3.0",
    "x % -3": "x % -3.0",
    "x % 0": "x % 0.0",
    "fmod 3": "lib.fmod(x, 3.0)",
    "fmod 0": "lib.fmod(x, 0.0)",
    "div floor": "lib.div(x, 3.0, rounding_mode='floor')",
    "div trunc": "lib.div(x, -3.0, rounding_mode='trunc')",
    "nan_to_num of numbers": "lib.nan_to_num(x, 2.0, 3.0, 4.0)",
    "heaviside": "lib.heaviside(x.detach(), lib.ones_like(x) * 0.5)",
    "frexp": "lib.frexp(x)[0]",
    "exponent": "lib.frexp(x)[1]",
    "x xlogy 0": "lib.xlogy(x, 0.0)",
    "0 xlogy x": "lib.xlogy(0.0, x)",
    "2 xlogy x": "lib.xlogy(2.0, x)",
    "0 xlog1py x": "lib.special.xlog1py(0.0, x)",
    "nextafter": "lib.nextafter(x, lib.ones_like(x))",
    "ldexp": "lib.ldexp(x, lib.tensor(2))",
    "copysign": "lib.copysign(x, -1.0)",
    "masked_fill": "x.masked_fill(x > 0, 2.0)",
    "where": "lib.where(x > 0, x, -x)",
    "prelu": "F.prelu(x, lib.tensor([0.25], dtype=x.dtype))",
    "glu": "F.glu(lib.cat([x, x]), 0)",
    "lerp": "lib.lerp(x, lib.ones_like(x), 0.5)",
    "addcmul": "lib.addcmul(x, x, x)",
    "addcdiv": "lib.addcdiv(x, x, x)",
    "logaddexp": "lib.logaddexp(x, lib.zeros_like(x))",
    "logaddexp2": "lib.logaddexp2(x, lib.zeros_like(x))",
}
_PAIRED = (
    "add atan2 copysign div eq fmax fmin fmod ge gt hypot isclose ldexp le logaddexp logaddexp2 "
    "logical_and logical_or logical_xor lt maximum minimum mul ne nextafter pow remainder rsub sub "
    "true_divide xlogy"
)
_LOSSES = (
    "binary_cross_entropy_with_logits hinge_embedding_loss huber_loss kl_div l1_loss mse_loss "
    "poisson_nll_loss smooth_l1_loss"
)
PAIRS: dict[str, str] = {
    **{name: f"lib.{name}(x, y)" for name in _PAIRED.split()},
    **{f"F.{name}": f"F.{name}(x, y, reduction='none')" for name in _LOSSES.split()},
    "floor_divide": "lib.floor_divide(x.detach(), y.detach())",
    "heaviside of pairs": "lib.heaviside(x.detach(), y.detach())",
    "xlog1py": "lib.special.xlog1py(x, y)",
    "polar": "lib.view_as_real(lib.polar(x, y))",
    "complex": "lib.view_as_real(lib.complex(x, y))",
    "abs of complex": "lib.complex(x, y).abs()",
    "angle of complex": "lib.complex(x, y).angle()",
    "div floor": "lib.div(x, y, rounding_mode='floor')",
    "div trunc": "lib.div(x, y, rounding_mode='trunc')",
    "lerp of pairs": "lib.lerp(x, y, 0.3)",
    "lerp by tensor": "lib.lerp(x, x + 1, y)",
    "clamp by tensor": "lib.clamp(x, y, lib.ones_like(y))",
    "where of pairs": "lib.where(x > y, x, y)",
    "addcmul of pairs": "lib.addcmul(x, x, y)",
    "addcdiv of pairs": "lib.addcdiv(x, x, y)",
    "kl_div of logarithms": "F.kl_div(x, y, log_target=True, reduction='none')",
    "poisson_nll_loss of rates": "F.poisson_nll_loss(x, y, log_input=False, reduction='none')",
    "margin_ranking_loss": "F.margin_ranking_loss(x, y, lib.ones_like(y), reduction='none')",
    "huber_loss of 2": "F.huber_loss(x, y, delta=2.0, reduction='none')",
    "smooth_l1_loss of 0": "F.smooth_l1_loss(x, y, beta=0.0, reduction='none')",
}
_REDUCED = (
    "all amax amin any argmax argmin count_nonzero cummax cummin cumprod cumsum log_softmax "
    "logcumsumexp logsumexp max mean median min nanmean nanmedian nansum norm prod softmax sort std "
    "sum var"
)
ROWS: dict[str, str] = {
    **{name: f"first(lib.{name}(x, 1))" for name in _REDUCED.split()},
    **{f"norm of {p}": f"lib.linalg.vector_norm(x, {p}, 1)" for p in (1, 2, 3, 0.5, -1)},
    "norm of inf": "lib.linalg.vector_norm(x, float('inf'), 1)",
    "norm of -inf": "lib.linalg.vector_norm(x, -float('inf'), 1)",
    "topk": "lib.topk(x, 2, 1)[0]",
    "aminmax": "lib.aminmax(x, dim=1)[0]",
    "msort": "lib.msort(x.t())",
    "softmin": "F.softmin(x, 1)",
    "diff": "lib.diff(x, dim=1)",
    "quantile": "lib.quantile(x, 0.3, 1)",
    "nanquantile": "lib.nanquantile(x, 0.3, 1)",
    "normalize": "F.normalize(x, dim=1)",
    "avg_pool1d": "F.avg_pool1d(x, 2, 1)",
    "max_pool1d": "F.max_pool1d(x, 2, 1)",
    "lp_pool1d": "F.lp_pool1d(x, 2, 2, 1)",
    "adaptive_avg_pool1d": "F.adaptive_avg_pool1d(x, 2)",
    "cross_entropy": "F.cross_entropy(x, lib.zeros_like(x).long()[:, 0], reduction='none')",
    "nll_loss": "F.nll_loss(x, lib.zeros_like(x).long()[:, 0], reduction='none')",
    "multi_margin_loss": "F.multi_margin_loss(x, lib.zeros_like(x).long()[:, 0], reduction='none')",
    "pairwise_distance": "F.pairwise_distance(x, lib.ones_like(x))",
    "triplet_margin_loss": "F.triplet_margin_loss(x, x * 0 + 1, x * 0, reduction='none')",
    "scatter mean": "lib.zeros_like(x).scatter_reduce(1, lib.zeros_like(x).long(), x, 'mean')",
    "cross": "lib.linalg.cross(x, lib.ones_like(x))",
    "flip": "lib.flip(x, (1,))",
    "cumulative_trapezoid": "lib.cumulative_trapezoid(x, dim=1)",
}

Excuse = Callable[..., Any]
_is_nan = lambda x, **_: np.isnan(x)  # noqa: E731
_is_infinite = lambda x, **_: np.isinf(x) | np.isnan(x)  # noqa: E731
_has_infinite = lambda x, **_: (~np.isfinite(x)).any(-1)  # noqa: E731
EXCUSED: dict[tuple[str, str], tuple[Excuse, str]] = {}
"""By function and result, where they differ, and why. ``big`` is the largest number of the dtype."""


def excuse(names: str, kinds: str, where: Excuse, why: str) -> None:
    for name in names.split(", "):
        EXCUSED.update({(name, kind): (where, why) for kind in kinds.split()})


excuse("F.celu, F.elu, F.selu, F.hardswish, elu of 2, celu of 2", "dx", _is_nan, "torch has 1 at nan")
excuse("F.hardshrink, F.hardtanh, F.relu6, F.softshrink", "dx", _is_nan, "torch has 1 at nan of halves")
excuse("logit within", "dx", _is_nan, "what is cut has no gradient")
excuse("copysign", "dx", _is_infinite, "oplib multiplies the sign, torch divides infinities")
excuse("x ** 0.5, x ** -0.5", "value", lambda x, **_: x == -np.inf, "oplib computes a power, torch a root")
excuse("x ** 0.5, x ** 1.5", "dx", lambda x, **_: x == -np.inf, "the same")
excuse("0 / x", "dx", lambda x, small, **_: np.abs(x) < small**0.4, "torch squares x, and gives nan")
excuse("0 xlogy x, 0 xlog1py x", "dx", lambda x, **_: x <= 0, "torch divides 0 by 0")
excuse("xlogy", "dy", lambda x, y, **_: (x == 0) & (y == 0), "torch divides 0 by 0")
excuse("xlog1py", "dy", lambda x, y, **_: (x == 0) & (y == -1), "torch divides 0 by 0")
excuse(
    "digamma, special.digamma, special.psi, polygamma 0",
    "dx",
    lambda x, **_: (x < 0) & (x == np.floor(x)),
    "a pole, at which torch has a large number or nan",
)
excuse("polygamma 1, polygamma 2", "value dx", lambda x, **_: (x < 0) & (x == np.floor(x)), "a pole")
excuse("special.log_ndtr", "dx", lambda x, big, **_: x < -(big**0.4), "torch multiplies 0 by inf")
excuse("special.erfcx", "dx", lambda x, big, **_: np.abs(x) > big**0.9, "0 times inf, in one or the other")
excuse("special.i1", "dx", _is_nan, "torch has 1/2 at nan")
excuse("F.gelu, gelu by tanh", "value dx", lambda x, big, **_: np.abs(x) > big**0.4, "torch gives nan")
excuse("F.gelu", "dx", lambda x, big, **_: (np.abs(x) > big**0.4) | (x < -5), "1 + erf keeps no digits there")
excuse("tanh, F.tanh", "dx", lambda x, **_: np.abs(x) == 10, "1 - y * y keeps few digits, in torch too")
excuse(
    "erfinv, special.erfinv", "dx", lambda x, **_: np.abs(x) > 0.999, "halves round the result that is saved"
)
excuse("F.softsign", "dx", lambda x, **_: np.isinf(x), "torch multiplies 0 by inf")
excuse(
    "F.hardswish", "dx", lambda x, **_: np.isnan(x) | (x == -1.5), "0 as far as digits go; torch has 1 at nan"
)
excuse("F.tanhshrink", "dx", lambda x, **_: np.abs(x) < 1e-2, "a difference that is 0 as far as digits go")
excuse("legendre_polynomial_p 3", "value", lambda x, big, **_: np.abs(x) > big**0.9, "torch: inf - inf")
excuse("div, true_divide", "dy", lambda x, y, big, **_: np.isinf(x) & (np.abs(y) > big**0.9), "XLA: 0 * inf")
excuse(
    "atan2",
    "value dx dy",
    lambda x, y, big, small, **_: (
        (np.minimum(np.abs(x), np.abs(y)) < small**0.4) | (np.maximum(np.abs(x), np.abs(y)) > big**0.4)
    ),
    "torch squares the sides, ours are right (below)",
)
excuse(
    "angle of complex",
    "value dx dy",
    lambda x, y, big, small, **_: (
        (np.minimum(np.abs(x), np.abs(y)) < small**0.4)
        | (np.maximum(np.abs(x), np.abs(y)) > big**0.4)
        | np.isinf(x)
        | np.isinf(y)
    ),
    "the same",
)
excuse("fmod, remainder", "value", lambda x, y, **_: np.abs(x) > 1e9 * np.abs(y), "torch gives nan")
excuse("remainder", "dy", _is_infinite, "torch gives nan")
excuse(
    "hypot, abs of complex",
    "value dx dy",
    lambda x, y, big, **_: (np.abs(x) > big / 2) & (np.abs(y) > big / 2),
    "the result is too large, torch gives the largest number",
)
excuse("ldexp", "dy", lambda x, y, big, **_: y > np.log2(big) - 1, "a power that is inf")
excuse(
    "polar",
    "dx dy",
    lambda x, big, small, **_: (x <= small) | ~(x < big**0.9),
    "the gradient of the formula, as documented; torch divides subnormal numbers, which are 0",
)
excuse(
    "frexp", "dx", lambda x, **_: np.abs(x) > 1e150, "ours is 2 ** -exponent; torch's power is one of singles"
)
excuse(
    "addcdiv",
    "dx",
    lambda x, small, **_: np.abs(x) == small,
    "1 + 1/x - 1/x of halves; torch has -inf",
)
excuse(
    "logaddexp, logaddexp2",
    "dx dy",
    lambda x, y=0, **_: (x == -np.inf) & (y == -np.inf),
    "0, as in logsumexp; torch: inf - inf",
)
excuse("logaddexp2", "value", lambda x, y=0, **_: (x == -1) & (y == -1), "0; torch rounds the logarithm of 2")
excuse(
    "addcdiv of pairs",
    "dy",
    lambda x, y, big, small, **_: ~((np.abs(y) > small**0.4) & (np.abs(y) < big**0.4)),
    "torch squares y",
)
excuse(
    "sinc, special.sinc",
    "value dx",
    lambda x, big, **_: np.abs(x) > big**0.4,
    "no digit of the angle is left",
)
excuse("special.airy_ai", "value", lambda x, big, **_: np.abs(x) > big**0.4, "the same; torch has nan at inf")
excuse("clamp by tensor", "dy", lambda x, y, **_: (y == 1) & (x < y), "both bounds are equal")
excuse("F.kl_div", "value", lambda x, y, big, **_: np.abs(y) > big**0.4, "torch: inf - inf")
excuse("F.kl_div", "dy", lambda x, y, **_: y == 0, "torch divides 0 by 0")
excuse("F.poisson_nll_loss", "value", lambda x, big, **_: x > big**0.2, "XLA: exp(inf) - inf is -inf")
excuse("F.binary_cross_entropy_with_logits", "dx", lambda x, big, **_: x < -(big**0.9), "0 beside the target")
excuse("F.binary_cross_entropy_with_logits", "dx", lambda x, big, **_: x < -(big**0.4), "0 beside the target")
excuse(
    "logsumexp",
    "dx",
    lambda x, big, **_: np.abs(x).max(-1, keepdims=True) > big**0.4,
    "torch: equal large items share 2; nan beside an infinity",
)
excuse(
    "var", "dx", lambda x, big, **_: ~(np.abs(x).max(-1) < big**0.4), "nan, where torch has infinities too"
)
excuse("std", "value dx", lambda x, big, **_: ~(np.abs(x).max(-1) < big**0.4), "torch squares in double")
excuse("cumprod, logcumsumexp", "dx", lambda x, big, **_: ~(np.abs(x).max(-1) < big**0.4), "0 times inf")
excuse(
    "norm of 3, norm of 0.5, norm of -1",
    "dx",
    lambda x, **_: (x == 0).any(-1),
    "torch has nan beside 0 and inf",
)
excuse(
    "max_pool1d", "dx", lambda x, **_: np.isnan(x).any(-1), "of windows of nan the first item, as documented"
)
excuse("pairwise_distance, triplet_margin_loss", "dx", _has_infinite, "nan or 0 beside infinities")


def _find_slope_of_sinc(x: Any) -> Any:
    if abs(x) < mp.mpf("1e-15"):
        return -mp.pi * mp.pi * x / 3
    return (mp.cos(mp.pi * x) * mp.pi * x - mp.sin(mp.pi * x)) / (mp.pi * x * x)


def trust() -> dict[str, Callable[[Any], Any]]:
    """Returns the functions that torch computes with fewer digits, by 40 digits."""
    return {
        "acosh dx": lambda x: 1 / mp.sqrt(x * x - 1),
        "sinc dx": _find_slope_of_sinc,
        "special.sinc dx": _find_slope_of_sinc,
        "special.airy_ai value": mp.airyai,
        "special.bessel_j0 value": mp.j0,
        "special.bessel_j1 value": mp.j1,
        "special.bessel_y0 value": lambda x: mp.bessely(0, x),
        "special.bessel_y1 value": lambda x: mp.bessely(1, x),
        "special.modified_bessel_k1 value": lambda x: mp.besselk(1, x),
        "special.scaled_modified_bessel_k1 value": lambda x: mp.besselk(1, x) * mp.exp(x),
        "special.ndtr value": mp.ncdf,
        "F.gelu value": lambda x: x * mp.ncdf(x),
        "F.gelu dx": lambda x: mp.ncdf(x) + x * mp.npdf(x),
        "digamma dx": lambda x: mp.psi(1, x),
        "special.digamma dx": lambda x: mp.psi(1, x),
        "special.psi dx": lambda x: mp.psi(1, x),
        "polygamma 0 dx": lambda x: mp.psi(1, x),
        "polygamma 1 value": lambda x: mp.psi(1, x),
        "polygamma 1 dx": lambda x: mp.psi(2, x),
        "polygamma 2 dx": lambda x: mp.psi(3, x),
        "gelu by tanh value": lambda x: (
            x * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))) / 2
        ),
        "F.hardsigmoid dx": lambda x: mp.mpf(1) / 6 if abs(x) < 3 else mp.mpf(0),
        "tanh dx": lambda x: mp.sech(x) ** 2,
        "F.tanh dx": lambda x: mp.sech(x) ** 2,
        "F.softsign dx": lambda x: 1 / (1 + abs(x)) ** 2,
    }
