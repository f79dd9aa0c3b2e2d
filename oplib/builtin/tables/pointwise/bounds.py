"""Pointwise functions of several operands: bounds, remainders and blends."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from oplib.builtin.rows.row import SELECTED, ItemRow, Row
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    choose_larger,
    choose_smaller,
    compute_dtype,
    elementwise,
    is_integral,
    promote_operands,
)
from oplib.builtin.shared_kernels.shared_gradients import LARGER, SMALLER
from oplib.errors import ArgumentError, UnsupportedDtypeError
from oplib.library import Derivative

from .arithmetic_operators import find_quotient
from .shared_rows import ONE_NUMBER, make_pairs

_NOT_DIVIDED = Derivative(missing="torch has none either: use div with rounding_mode, whose gradient is 0")


# Maxima and clamping ----------------------------------------------------------------------------------------


def _clamp_min(x: Any, low: Any) -> Any:
    chosen = jnp.where(x < low, low, x)
    return chosen if is_integral(x.dtype) else _keep_nan(x, low, chosen)


def _clamp_max(x: Any, high: Any) -> Any:
    chosen = jnp.where(x > high, high, x)
    return chosen if is_integral(x.dtype) else _keep_nan(x, high, chosen)


def _keep_nan(x: Any, bound: Any, chosen: Any) -> Any:
    """Returns nan if an item or a bound is nan; neither gets a gradient then."""
    return jnp.where(jnp.isnan(x) | jnp.isnan(bound), lax.stop_gradient(x + bound), chosen)


def _clamp(x: Any, low: Any, high: Any) -> Any:
    """Limits x to [low, high]; if low is above high, the result is high."""
    return _clamp_max(_clamp_min(x, low), high)


_INSIDE = "the gradient at a bound is that of the inside"
BOUNDS = (
    ItemRow(
        "maximum(Tensor self, Tensor other) -> Tensor",
        elementwise(choose_larger),
        "larger of two items; equal items share the gradient",
        derivative=LARGER,
        dtypes="bihf",
    ),
    ItemRow(
        "minimum(Tensor self, Tensor other) -> Tensor",
        elementwise(choose_smaller),
        "smaller of two items; equal items share the gradient",
        derivative=SMALLER,
        dtypes="bihf",
    ),
    ItemRow(
        "clamp.Scalar(Tensor self, Scalar min, Scalar max) -> Tensor",
        elementwise(_clamp),
        f"self, limited to [min, max]; {_INSIDE}",
        derivative=SELECTED,
        operand=("min", "max"),
        dtypes="ihf",
        aliases=("clip",),
        in_place_functions=("clamp_", "clip_"),
    ),
    ItemRow(
        "clamp.Tensor(Tensor self, Tensor min, Tensor max) -> Tensor",
        elementwise(_clamp),
        f"self, limited to [min, max]; {_INSIDE}",
        derivative=SELECTED,
        dtypes="ihf",
    ),
    *(
        row
        for bound, which, clamp in (("min", "larger", _clamp_min), ("max", "smaller", _clamp_max))
        for row in make_pairs(
            f"clamp_{bound}",
            elementwise(clamp),
            f"{which} of self and {bound}; {_INSIDE}",
            kinds=ONE_NUMBER,
            derivative=SELECTED,
            second=bound,
            dtypes="bihf",
            in_place_functions=(f"clamp_{bound}_",),
        )
    ),
)

# Division with a remainder ----------------------------------------------------------------------------------


def _divide_towards_zero(x: Any, y: Any) -> Any:
    quotient = lax.div(x, y)
    return quotient if is_integral(x.dtype) else jnp.trunc(quotient)


_ROUNDINGS = {"floor": jnp.floor_divide, "trunc": _divide_towards_zero}


def _div_rounded(self: Any, other: Any, *, rounding_mode: str) -> Any:
    if rounding_mode not in _ROUNDINGS:
        raise ArgumentError(
            "expected rounding_mode to be one of None, 'trunc' or 'floor'",
            "Leave it out for the exact quotient.",
        )
    return lax.stop_gradient(elementwise(_ROUNDINGS[rounding_mode])(self, other))


def _make_remainder(find: Any, find_quotient: Any) -> Any:
    """Differentiates by the quotient that the remainder leaves: 4 of 0.5 and 0.1, though 5 is nearer."""
    of_floats = jax.custom_jvp(find)

    def push(at: Any, of: Any) -> tuple[Any, Any]:
        pushed = jnp.zeros_like(at[0]) if isinstance(of[0], SymbolicZero) else of[0]
        if not isinstance(of[1], SymbolicZero):  # times the zero of a number, an infinite quotient is nan
            pushed -= find_quotient(*at) * of[1]
        return of_floats(*at), pushed

    of_floats.defjvp(push, symbolic_zeros=True)
    return elementwise(lambda x, y: (find if is_integral(x.dtype) else of_floats)(x, y))


def _count_whole(x: Any, y: Any) -> Any:
    count = jnp.round((x - lax.rem(x, y)) / y)
    return jnp.where(jnp.isnan(count), jnp.trunc(x / y), count)  # infinite, as in torch, where y is 0


_ROUNDED = "self / other, rounded down ('floor') or towards 0 ('trunc')"
DIVISIONS = (
    ItemRow(
        "div.Scalar_mode(Tensor self, Scalar other, *, str rounding_mode) -> Tensor",
        _div_rounded,
        _ROUNDED,
        operand=("other",),
        dtypes="ihf",
    ),
    ItemRow(
        "div.Tensor_mode(Tensor self, Tensor other, *, str rounding_mode) -> Tensor",
        _div_rounded,
        _ROUNDED,
        dtypes="ihf",
    ),
    *make_pairs(
        "floor_divide",
        elementwise(jnp.floor_divide),
        "self / other, rounded down",
        derivative=_NOT_DIVIDED,
        dtypes="ihf",
    ),
    *make_pairs(
        "remainder",
        _make_remainder(jnp.remainder, jnp.floor_divide),
        "remainder of self / other, with the sign of other",
        derivative=SELECTED,
        dtypes="ihf",
    ),
    *make_pairs(
        "fmod",
        _make_remainder(lax.rem, _count_whole),
        "remainder of self / other, with the sign of self",
        derivative=SELECTED,
        dtypes="ihf",
    ),
)

# Blends -----------------------------------------------------------------------------------------------------


def lerp(self: Any, end: Any, weight: Any) -> Any:
    """Interpolates from the nearer end, so that a weight of 1 gives end exactly."""
    if not self.dtype == end.dtype:
        raise ArgumentError("expected both ends to have the same dtype", "Convert one: tensor.to(dtype).")
    if is_integral(self.dtype):
        raise UnsupportedDtypeError("not implemented for integers", "Convert them: tensor.float().")
    if weight.ndim and weight.dtype != self.dtype:
        raise ArgumentError(f"expected dtype {self.dtype.name} for weight", "Convert it: tensor.to(dtype).")
    own = compute_dtype(self.dtype, (self, end, weight))
    x, y, w = broadcast([lax.convert_element_type(array, own) for array in (self, end, weight)])
    is_near = lax.abs(w) < 0.5
    share = jnp.where(is_near, w, w - 1)
    return lax.convert_element_type(jnp.where(is_near, x, y) + share * (y - x), self.dtype)


def _add_combined(op: str, combine: Any, self: Any, tensor1: Any, tensor2: Any, *, value: Any = None) -> Any:
    """Computes ``self + value * combine(first, second)``."""
    dtype = promote_operands(self, tensor1, tensor2)
    if op == "addcdiv" and is_integral(tensor1.dtype) and is_integral(tensor2.dtype):
        raise ArgumentError("integer division is not supported", "Convert them to a floating dtype.")
    factors = [] if value is None else [value]
    own = compute_dtype(dtype, (self, tensor1, tensor2, *factors))
    operands = [lax.convert_element_type(array, own) for array in (self, tensor1, tensor2, *factors)]
    x, first, second, *scale = broadcast(operands)
    combined = combine(first, second)
    return lax.convert_element_type(x + (scale[0] * combined if scale else combined), dtype)


def _make_combined(op: str, combine: Any, sign: str, dtypes: str) -> Iterator[Row]:
    """Makes the rows of ``addcmul`` or ``addcdiv``, without a factor and with one."""
    tensors = "Tensor self, Tensor tensor1, Tensor tensor2"
    kernel, formula = partial(_add_combined, op, combine), f"tensor1 {sign} tensor2"
    facts: dict[str, Any] = {"dtypes": dtypes, "autocast": "cuda widest"}
    yield ItemRow(f"{op}.unscaled({tensors}) -> Tensor", kernel, f"self + {formula}", in_place=True, **facts)
    yield ItemRow(
        f"{op}({tensors}, *, Scalar value=1) -> Tensor",
        kernel,
        f"self + value * {formula}",
        operand=("value",),
        **facts,
    )


BLENDS = (
    ItemRow(
        "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
        lerp,
        "self + weight * (end - self)",
        operand=("weight",),
        in_place=True,
        dtypes="hfc",
    ),
    ItemRow(
        "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
        lerp,
        "self + weight * (end - self)",
        dtypes="hfc",
    ),
    *_make_combined("addcmul", lax.mul, "*", "ihfc"),
    *_make_combined("addcdiv", find_quotient, "/", "hfc"),
)

ROWS = (
    *BOUNDS,
    *DIVISIONS,
    *BLENDS,
    ItemRow(
        "nan_to_num(Tensor self, float nan=0., float? posinf=None, float? neginf=None) -> Tensor",
        lambda x, nan, posinf, neginf: jnp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf),
        "self with nan and infinities replaced, by default by 0 and the largest finite numbers",
        derivative=SELECTED,
        in_place_functions=("nan_to_num_",),
    ),
)
