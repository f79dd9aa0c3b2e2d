"""Further pointwise arithmetic: angles, extrema that ignore nan, sums of exponentials, divisors."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import DERIVED, ItemRow, Row, constant, save_inputs
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    elementwise,
    in_single,
    is_integral,
    strong,
    sum_like,
)
from oplib.builtin.shared_kernels.shared_gradients import choose_first
from oplib.library import Derivative
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import COMPLEX

from .arithmetic_operators import find_size
from .shared_rows import make_pairs, make_unary

_STEP = constant("the result is a bool, which is piecewise constant")
_WHOLE = constant("integers have no gradient")

# Of one tensor ----------------------------------------------------------------------------------------------


def _scale(factor: float) -> Any:
    return in_single(lambda x: x * factor)


def _ask(op: str, function: Any, doc: str, dtypes: str = "bihf") -> Row:
    return ItemRow(
        f"{op}(Tensor self) -> Tensor", function, doc, derivative=_STEP, dtypes=dtypes, result="bools"
    )


def _is_infinite(sign: int, self: Any) -> Any:
    if is_integral(self.dtype):
        return jnp.zeros(self.shape, bool)
    return self == sign * math.inf


def _i0(x: Any) -> Any:
    size = find_size(x)  # JAX's derivative of abs at 0 is 1, but that of i0 is 0
    return lax.exp(size) * lax.bessel_i0e(x)


def _i0_backward(ctx: Any, g: Any) -> Any:
    """Computes i1 * g; JAX's derivative is a difference of two large numbers."""
    (x,) = ctx.saved_tensors
    return g * in_single(lambda x: lax.exp(find_size(x)) * lax.bessel_i1e(x))(x)


def _sinc(x: Any) -> Any:
    return divide_sine(x * math.pi)


def divide_sine(angle: Any) -> Any:
    """Computes sin(angle) / angle; by a series near 0, where the quotient's derivative is inaccurate."""
    is_small = lax.abs(angle) < 0.5
    near = jnp.where(is_small, angle, 0)
    away = jnp.where(is_small, 1, angle)
    square, series = near * near, 1.0
    for n in (156, 110, 72, 42, 20, 6):  # n of the terms: 2k * (2k + 1)
        series = 1 - square * series / n
    return jnp.where(is_small, series, lax.sin(away) / away)


def _signbit(self: Any) -> Any:
    return self < strong(0, self) if is_integral(self.dtype) else jnp.signbit(self)


def _isreal(self: Any) -> Any:
    if self.dtype not in COMPLEX:
        return jnp.ones(self.shape, bool)
    imaginary = lax.imag(self)
    return imaginary == 0


# Of two -----------------------------------------------------------------------------------------------------


def _is_larger(x: Any, y: Any) -> Any:
    return x >= y if is_integral(y.dtype) else (x >= y) | jnp.isnan(y)


def _is_smaller(x: Any, y: Any) -> Any:
    return x <= y if is_integral(y.dtype) else (x <= y) | jnp.isnan(y)


def _choose_by(is_first: Any) -> Any:
    """Returns the choice of one of two items; of equal items the first, which alone gets the gradient."""
    return lambda x, y: jnp.where(is_first(x, y), x, y)


def _log_sum(log_of_base: float) -> Any:
    def compute(x: Any, y: Any) -> Any:
        top = lax.stop_gradient(lax.max(jnp.real(x), jnp.real(y)))
        top = jnp.where(jnp.isinf(top), 0, top)  # the sum of two infinities would be nan
        top = lax.convert_element_type(top, x.dtype)
        if x.dtype in COMPLEX:
            return top + lax.log(lax.exp(x - top) + lax.exp(y - top))
        # One argument that is inf is the result, with the derivative 1; of two it is nan.
        inf, scale = jnp.inf, log_of_base
        is_x, is_y = (x == inf) & (y < inf), (y == inf) & (x < inf)
        is_none = (x == -inf) & (y == -inf)  # has no derivative, as in logsumexp
        x_finite, y_finite = (jnp.where(is_x | is_y | is_none, 0, array) for array in (x, y))
        is_first = x_finite >= y_finite
        above = jnp.where(is_first, x_finite, y_finite) - top
        below = jnp.where(is_first, y_finite, x_finite) - top
        found = top + lax.log1p(lax.expm1(above * scale) + lax.exp(below * scale)) / scale
        return jnp.where(is_x, x, jnp.where(is_y, y, jnp.where(is_none, -inf, found)))

    return in_single(compute)


def _xlogy(x: Any, y: Any) -> Any:
    """Returns x * log(y), and 0 where x is 0, unless y is nan."""
    return x * lax.log(replace_unless_finite(x, y, lax.log, 1))


def replace_unless_finite(x: Any, y: Any, logarithm: Any, value: float) -> Any:
    """Returns y, and another value where x is 0 and the logarithm of y is infinite or none."""
    is_none = ~jnp.isnan(y) & ~jnp.isfinite(logarithm(lax.stop_gradient(y)))
    return jnp.where((x == 0) & is_none, value, y)


def _nextafter_backward(ctx: Any, g: Any) -> Any:
    """Returns the gradient by self: 1, and 0 where self equals other, as in torch."""
    x, other = [lax.convert_element_type(array, g.dtype) for array in broadcast(ctx.saved_tensors)]
    return sum_like((jnp.where(x == other, 0, g), None), ctx.saved_tensors)


def raise_two(x: Any) -> Any:
    """Returns powers of two; those of whole numbers are exact."""
    if x.dtype.kind == "c":
        return lax.exp2(x)
    info = jnp.finfo(x.dtype)
    bias = int(info.maxexp) - 1
    bounded = lax.clamp(strong(4 - 2 * bias, x), x, strong(2 * bias - 4, x))
    whole = lax.floor(bounded)
    count = lax.convert_element_type(whole, f"int{info.bits}")
    half = count >> 1  # two factors, because one would be inf before the power is
    first, second = (
        lax.bitcast_convert_type((part + bias) << info.nmant, x.dtype) for part in (half, count - half)
    )
    return lax.exp2(bounded - whole) * first * second


def _ldexp(x: Any, y: Any) -> Any:
    return x * lax.exp2(y)


def _save_exponent(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001  the signature is fixed
    ctx.save_for_backward(output[1])


def _frexp_backward(ctx: Any, g: Any, h: Any) -> Any:  # noqa: ARG001  the exponents have no gradient
    (exponent,) = ctx.saved_tensors
    half = exponent // 2  # one power of two could be below the normal numbers
    one = jnp.ones_like(g)
    return g * jnp.ldexp(one, -half) * jnp.ldexp(one, half - exponent)


def _frexp(self: Any) -> tuple[Any, Any]:
    wide = lax.convert_element_type(self, dtypes.float32) if self.dtype != dtypes.float64 else self
    mantissa, exponent = jnp.frexp(wide)
    return lax.convert_element_type(mantissa, self.dtype), lax.convert_element_type(exponent, dtypes.int32)


def _pair(
    op: str,
    function: Any,
    doc: str,
    *,
    derivative: Derivative = DERIVED,
    dtypes: str = "bihf",
    in_place: bool = False,
    floating: bool = False,
    **facts: Any,
) -> Row:
    return ItemRow(
        f"{op}(Tensor self, Tensor other) -> Tensor",
        elementwise(function, floating=floating),
        doc,
        derivative=derivative,
        in_place=in_place,
        dtypes=dtypes,
        **facts,
    )


def _gcd(x: Any, y: Any) -> Any:
    """Returns greatest common divisors; those of magnitudes, since the least integer has no negative."""
    if x.dtype.kind == "u":
        return jnp.gcd(x, y)
    unsigned = f"u{x.dtype.name}"
    sizes = [lax.convert_element_type(jnp.where(array < 0, -array, array), unsigned) for array in (x, y)]
    return lax.convert_element_type(jnp.gcd(*sizes), x.dtype)


def _lcm(x: Any, y: Any) -> Any:
    divisor = _gcd(x, y)
    is_none = divisor == 0
    multiple = jnp.abs(x // jnp.where(is_none, 1, divisor)) * jnp.abs(y)
    if multiple.dtype.itemsize >= 4:  # torch multiplies smaller ones in 32 bits, and cuts the result
        multiple = jnp.abs(multiple)
    return jnp.where(is_none, 0, multiple)


ROWS = (
    make_unary("deg2rad", _scale(math.pi / 180), "degrees as radians", dtypes="bihf"),
    make_unary("rad2deg", _scale(180 / math.pi), "radians as degrees", dtypes="bihf"),
    make_unary("sinc", _sinc, "sin(pi * self) / (pi * self)"),
    make_unary(
        "i0",
        _i0,
        "modified Bessel function of the first kind and order 0",
        Derivative(backward=_i0_backward, setup_context=save_inputs),
        dtypes="bihf",
    ),
    _ask("signbit", _signbit, "whether self is negative, including -0.0"),
    _ask("isposinf", partial(_is_infinite, 1), "whether self is positive infinity"),
    _ask("isneginf", partial(_is_infinite, -1), "whether self is negative infinity"),
    _ask("isreal", _isreal, "whether the imaginary part is 0", "bihfc"),
    *(
        _pair(
            op,
            _choose_by(is_first),
            f"the {which} of two items, ignoring nan; of equal items the first",
            derivative=choose_first(is_first),
        )
        for op, which, is_first in (("fmax", "larger", _is_larger), ("fmin", "smaller", _is_smaller))
    ),
    _pair("logaddexp", _log_sum(1.0), "log(exp(self) + exp(other))", dtypes="hfc"),
    _pair("logaddexp2", _log_sum(math.log(2.0)), "log2(2 ** self + 2 ** other)", dtypes="hf"),
    *make_pairs(
        "xlogy",
        elementwise(_xlogy, floating=True),
        "self * log(other), and 0 where self is 0",
        dtypes="bihf",
        result="floats",
        in_place_functions=("xlogy_",),
    ),
    Row(
        "frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)",
        _frexp,
        "a mantissa from 0.5 to 1 and a power of 2, whose product is self",
        derivative=Derivative(backward=_frexp_backward, setup_context=_save_exponent),
        dtypes="hf",
        out=True,
    ),
    _pair(
        "ldexp",
        _ldexp,
        "self * 2 ** other",
        in_place=True,
        floating=True,
        dtypes="bihfc",
        result="floats",
        in_place_functions=("ldexp_",),
    ),
    _pair(
        "nextafter",
        jnp.nextafter,
        "next representable number after self in the direction of other",
        derivative=Derivative(backward=_nextafter_backward, setup_context=save_inputs, selects=True),
        in_place=True,
        dtypes="hf",
    ),
    *(
        _pair(
            op,
            compute,
            doc,
            derivative=_WHOLE,
            in_place=True,
            dtypes="i",
            in_place_functions=(f"{op}_",),
        )
        for op, compute, doc in (
            ("gcd", _gcd, "greatest common divisor"),
            ("lcm", _lcm, "least common multiple"),
        )
    ),
)
