"""Pointwise elementary and special functions."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.autograd.engine.validation import sum_to
from oplib.builtin.rows.row import ItemRow, Row, from_output, save_inputs
from oplib.builtin.shared_kernels.gamma import compute_lgamma, compute_polygamma
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    check_dtypes,
    elementwise,
    in_single,
    is_integral,
    strong,
    sum_like,
    to_floating,
)
from oplib.errors import UnsupportedDtypeError
from oplib.library import Derivative
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

from .arithmetic_operators import find_direction, find_sign
from .further_arithmetic import raise_two
from .shared_rows import ONE_NUMBER, make_pairs, make_unary

_LN2 = math.log(2.0)


def _step(name: str, function: Any, doc: str, **facts: Any) -> Row:
    """Makes a row for a rounding; integers are unchanged, and JAX's derivative is 0."""

    def kernel(self: Any) -> Any:
        return self if is_integral(self.dtype) else function(self)

    names = tuple(f"{alias}_" for alias in (name, *facts.get("aliases", ())))
    schema = f"{name}(Tensor self) -> Tensor"
    return ItemRow(schema, kernel, doc, in_place=True, dtypes="ihf", in_place_functions=names, **facts)


# The most common ones ---------------------------------------------------------------------------------------


def _relu(array: Any) -> Any:
    return jnp.where(array <= 0, strong(0, array), array)  # XLA's maximum in a sum passes over nan on CPUs


FUNCTIONS = (
    make_unary(
        "exp",
        lax.exp,
        "e to the power of self",
        from_output(lambda g, y: g * jnp.conj(y)),
        autocast="cuda float32",
    ),
    make_unary("log", lax.log, "natural logarithm", autocast="cuda float32"),
    make_unary("sqrt", lax.sqrt, "square root", from_output(lambda g, y: g / jnp.conj(2 * y))),
    make_unary("sin", lax.sin, "sine"),
    make_unary("cos", lax.cos, "cosine"),
    make_unary(
        "tanh",
        lax.tanh,
        "hyperbolic tangent",
        from_output(lambda g, y: g * jnp.conj(1 - y * y)),
        network_name="tanh",
    ),
    make_unary(
        "sigmoid",
        lax.logistic,
        "1 / (1 + exp(-self))",
        from_output(lambda g, y: g * jnp.conj((1 - y) * y)),
        network_name="sigmoid",
    ),
    ItemRow(
        "relu(Tensor self) -> Tensor",
        _relu,
        "the larger of self and 0; the gradient at 0 is 0",
        derivative=from_output(lambda g, y: jnp.where(y <= 0, 0, g)),
        dtypes="ihf",
        network_name="relu",
        inplace_at=1,
        in_place_functions=("relu_", "nn.functional.relu_"),
    ),
)


# Exponentials and powers ------------------------------------------------------------------------------------


def _square(self: Any) -> Any:
    if self.dtype == dtypes.bool:
        return lax.convert_element_type(self, default_int_dtype())
    return lax.square(self)


EXPONENTIALS = (
    make_unary(
        "exp2",
        raise_two,
        "2 to the power of self",
        from_output(lambda g, y: g * jnp.conj(y) * _LN2),
    ),
    make_unary(
        "expm1",
        lax.expm1,
        "exp(self) - 1, accurate near 0",
        from_output(lambda g, y: g * jnp.conj(y + 1)),
        autocast="cuda float32",
    ),
    make_unary("log2", jnp.log2, "logarithm to base 2", autocast="cuda float32"),
    make_unary("log10", jnp.log10, "logarithm to base 10", autocast="cuda float32"),
    make_unary("log1p", lax.log1p, "log(1 + self), accurate near 0", autocast="cuda float32"),
    make_unary(
        "rsqrt",
        lax.rsqrt,
        "1 / sqrt(self)",
        from_output(lambda g, y: -0.5 * g * jnp.conj(y * y * y)),
        autocast="cuda float32",
    ),
    make_unary(
        "reciprocal",
        lambda x: lax.div(strong(1, x), x),
        "1 / self",
        from_output(lambda g, y: -g * jnp.conj(y * y)),
        autocast="cuda float32",
    ),
    ItemRow(
        "square(Tensor self) -> Tensor",
        _square,
        "self * self",
        in_place_functions=("square_",),
    ),
)

# Trigonometric and hyperbolic -------------------------------------------------------------------------------


def _acosh_backward(ctx: Any, g: Any) -> Any:
    """Computes the root of each factor: that of the product has the wrong sign for Re < 0, and overflows."""
    x = to_floating(ctx.saved_tensors[0])
    x = x if x.dtype.kind == "c" else lax.abs(x)  # below -1 it is torch's, though the value is nan
    return g * jnp.conj(lax.rsqrt(x - 1) * lax.rsqrt(x + 1))


def _make_atan(sign: int) -> Derivative:
    """Multiplies where JAX squares: the derivative of a square has 2 * x, which is inf for large x."""

    def backward(ctx: Any, g: Any) -> Any:
        x = to_floating(ctx.saved_tensors[0])
        return in_single(lambda g, x: g / jnp.conj(1 + sign * x * x))(g, x)

    return Derivative(backward=backward, setup_context=save_inputs)


_ACOSH = Derivative(backward=_acosh_backward, setup_context=save_inputs)

TRIGONOMETRIC = (
    make_unary(
        "tan",
        lax.tan,
        "tangent",
        from_output(lambda g, y: g * jnp.conj(1 + y * y)),
        autocast="cuda float32",
    ),
    make_unary("asin", lax.asin, "inverse sine", aliases=("arcsin",), autocast="cuda float32"),
    make_unary("acos", lax.acos, "inverse cosine", aliases=("arccos",), autocast="cuda float32"),
    make_unary("atan", lax.atan, "inverse tangent", _make_atan(1), aliases=("arctan",)),
    make_unary("sinh", lax.sinh, "hyperbolic sine", autocast="cuda float32"),
    make_unary("cosh", lax.cosh, "hyperbolic cosine", autocast="cuda float32"),
    make_unary("asinh", lax.asinh, "inverse hyperbolic sine", aliases=("arcsinh",)),
    make_unary("acosh", lax.acosh, "inverse hyperbolic cosine", _ACOSH, aliases=("arccosh",)),
    make_unary("atanh", lax.atanh, "inverse hyperbolic tangent", _make_atan(-1), aliases=("arctanh",)),
)


def _atan2_backward(ctx: Any, g: Any) -> Any:
    """Computes the gradient; it is 0 at the origin, and its derivative there is nan, as in torch."""
    y, x = broadcast(ctx.saved_tensors)
    length = jnp.hypot(x, y)  # its square would be 0 or inf for numbers that are neither
    is_origin = length == 0
    scale = jnp.where(is_origin, 0, g / jnp.where(is_origin, 1, length))
    cosine, sine = (jnp.where(is_origin, part, part / length) for part in (x, y))
    return sum_like((scale * cosine, -scale * sine), ctx.saved_tensors)


_ATAN2 = Derivative(backward=_atan2_backward, setup_context=save_inputs)

# Special functions ------------------------------------------------------------------------------------------


def _logit(self: Any, eps: float | None = None) -> Any:
    x = to_floating(self)
    if eps is None:
        return in_single(_compute_logit)(x)
    low, high = strong(eps, x), strong(1 - eps, x)
    is_known = (x >= low) & (x <= high)
    kept = in_single(_compute_logit)(jnp.where(is_known, x, lax.stop_gradient(lax.clamp(low, x, high))))
    return jnp.where(is_known, kept, lax.stop_gradient(kept))


@jax.custom_jvp
def _compute_logit(x: Any) -> Any:
    return lax.log(x / (1 - x))


@_compute_logit.defjvp
def _differentiate_logit(primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    is_share = (x >= 0) & (x <= 1)
    slope = jnp.where(is_share, 1 / (lax.abs(x) * (1 - x)), jnp.nan)
    return _compute_logit(x), tangent * slope


_METHOD: dict[str, Any] = {"dtypes": "bihf", "in_place_functions": ()}
SPECIAL = (
    make_unary("erf", lax.erf, "error function", dtypes="bihf"),
    make_unary("erfc", lax.erfc, "1 - erf(self), accurate where erf is near 1", dtypes="bihf"),
    make_unary("erfinv", lax.erf_inv, "inverse of the error function", **_METHOD, autocast="cuda float32"),
    make_unary(
        "lgamma",
        compute_lgamma,
        "logarithm of the absolute value of the gamma function",
        **_METHOD,
    ),
    make_unary("digamma", functools.partial(compute_polygamma, 0), "derivative of lgamma", **_METHOD),
    ItemRow(
        "logit(Tensor self, float? eps=None) -> Tensor",
        _logit,
        "log(self / (1 - self)), with self limited to [eps, 1 - eps] if eps is given",
        dtypes="bihf",
        result="floats",
        in_place_functions=("logit_",),
    ),
)

# Rounding and signs -----------------------------------------------------------------------------------------


def _round(self: Any, *, decimals: int = 0) -> Any:
    if is_integral(self.dtype):
        if decimals:
            raise UnsupportedDtypeError(
                "integers are not rounded to decimals",
                "Leave decimals out, or convert to a floating dtype first.",
            )
        return self
    if not decimals:
        return lax.round(self, lax.RoundingMethod.TO_NEAREST_EVEN)

    def compute(x: Any) -> Any:
        # Behind a barrier, because XLA multiplies by the inverse of a constant, which is not exact.
        scale = lax.optimization_barrier(strong(10.0 ** abs(decimals), x))
        rounded = lax.round(x * scale if decimals > 0 else x / scale, lax.RoundingMethod.TO_NEAREST_EVEN)
        return rounded / scale if decimals > 0 else rounded * scale

    return in_single(compute)(self)


def _sign(self: Any) -> Any:
    return self if self.dtype == dtypes.bool else find_sign(self)


def _frac(x: Any) -> Any:
    return x - lax.stop_gradient(jnp.trunc(x))


def _sgn(self: Any) -> Any:
    return find_direction(self) if self.dtype.kind == "c" else lax.stop_gradient(_sign(self))


STEPS = (
    _step("floor", lax.floor, "largest integer not above self"),
    _step("ceil", lax.ceil, "smallest integer not below self"),
    _step("trunc", jnp.trunc, "integer part of self", aliases=("fix",)),
    ItemRow(
        "round(Tensor self, *, int decimals=0) -> Tensor",
        _round,
        "nearest integer, the even one of two; or nearest number with given decimals",
        dtypes="ihf",
        in_place_functions=("round_",),
    ),
    ItemRow(
        "frac(Tensor self) -> Tensor",
        _frac,
        "self minus its integer part",
        dtypes="hf",
        in_place_functions=("frac_",),
    ),
    ItemRow("sign(Tensor self) -> Tensor", _sign, "sign of self: -1, 0 or 1", in_place=True, dtypes="bihf"),
    ItemRow(
        "sgn(Tensor self) -> Tensor",
        _sgn,
        "sign of self; for a complex number self / abs(self)",
        in_place=True,
    ),
)

# Two operands -----------------------------------------------------------------------------------------------


def _save_hypot(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps the sides that get a gradient, as torch does: a constant one may be written afterwards."""
    ctx.shapes = [operand.shape for operand in inputs]
    pairs = zip(inputs, ctx.needs_input_grad, strict=True)
    ctx.save_for_backward(*[operand if is_needed else None for operand, is_needed in pairs], output)


def _hypot_backward(ctx: Any, g: Any) -> Any:
    *sides, length = ctx.saved_tensors
    wide = (None if side is None else jnp.broadcast_to(side, length.shape) for side in sides)
    pairs = zip(wide, ctx.shapes, strict=True)
    return tuple(
        None if side is None else sum_to(g * (strong(side, g) / length), shape) for side, shape in pairs
    )


_HYPOT = Derivative(backward=_hypot_backward, setup_context=_save_hypot)


def _save_copysign(ctx: Any, inputs: Any, output: Any) -> None:
    """Keeps self and the result, which has the sign of other, as torch does: other may be written."""
    ctx.shapes = [jnp.shape(operand) for operand in inputs]
    ctx.save_for_backward(inputs[0], output)


def _copysign_backward(ctx: Any, g: Any) -> Any:
    """Computes the gradient by self, which is 1 or -1, and 0 where self is 0; other gets 0."""
    x, signed = broadcast(ctx.saved_tensors)
    flips = jnp.signbit(x) != jnp.signbit(signed)
    slope = jnp.where(x == 0, 0, jnp.where(flips, strong(-1, g), strong(1, g)))
    by_other = jnp.zeros(ctx.shapes[1], g.dtype) if ctx.needs_input_grad[1] else None
    return sum_to(g * slope, ctx.shapes[0]), by_other


_COPYSIGN = Derivative(backward=_copysign_backward, setup_context=_save_copysign)


def _heaviside(x: Any, values: Any) -> Any:
    zero = strong(0, x)
    step = lax.convert_element_type(x > zero, x.dtype)
    return jnp.where(x == zero, values, step)  # for nan it is 0, as in torch


PAIRS = (
    ItemRow(
        "atan2(Tensor self, Tensor other) -> Tensor",
        elementwise(lax.atan2, floating=True),
        "angle of the point (other, self); the gradient at the origin is 0",
        derivative=_ATAN2,
        in_place=True,
        dtypes="bihf",
        result="floats",
        aliases=("arctan2",),
        autocast="cuda widest",
    ),
    ItemRow(
        "hypot(Tensor self, Tensor other) -> Tensor",
        elementwise(jnp.hypot),
        "length of the vector (self, other)",
        derivative=_HYPOT,
        in_place=True,
        dtypes="hf",
    ),
    *make_pairs(
        "copysign",
        elementwise(jnp.copysign, floating=True),
        "absolute value of self with the sign of other",
        kinds=ONE_NUMBER,
        derivative=_COPYSIGN,
        dtypes="bihf",
        result="floats",
    ),
    ItemRow(
        "heaviside(Tensor self, Tensor values) -> Tensor",
        elementwise(_heaviside, check=check_dtypes),
        "0 for negative items, 1 for positive items, and values at 0",
        derivative=Derivative(missing="torch has none either: it is a step, and at it depends on values"),
        in_place=True,
        dtypes="bihf",
    ),
)

ROWS = (*FUNCTIONS, *EXPONENTIALS, *TRIGONOMETRIC, *SPECIAL, *STEPS, *PAIRS)
