"""Ops whose result at a place depends on the operands at that place: arithmetic and elementary functions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.errors import ArgumentError, describe
from oplib.library import Derivative
from oplib.tensor import dtypes

from ._promotion import (
    Dtype,
    broadcast,
    compute_dtype,
    elementwise,
    find_dtype,
    is_integral,
    on_floating,
    strong,
)
from ._table import Row, from_output

# Arithmetic ---------------------------------------------------------------------------------------------------


def _refuse_bool(op: str, dtype: Dtype) -> None:
    if dtype == dtypes.bool:
        raise ArgumentError(
            f"{op}: bool has no subtraction. Got two bool operands. Use the comparison !=, or convert one first."
        )


def _scaled(op: str, function: Any) -> Any:
    """The kernel of ``add`` or ``sub`` with ``alpha``."""

    def kernel(self: Any, other: Any, *, alpha: Any) -> Any:
        dtype = find_dtype(self, other)
        if is_integral(dtype) and not is_integral(alpha.dtype):
            raise ArgumentError(
                f"{op}: for integral input tensors, argument 'alpha' must not be a floating point number. "
                f"Got {describe(self)}, {describe(other)} and alpha {describe(alpha)}. Convert one of the operands."
            )
        own = compute_dtype(dtype, (self, other, alpha))
        x, y = broadcast([lax.convert_element_type(operand, own) for operand in (self, other)], op)
        (factor,) = (lax.convert_element_type(alpha, own),)
        return lax.convert_element_type(function(x, lax.mul(y, lax.broadcast(factor, y.shape))), dtype)

    return kernel


def _add(x: Any, y: Any) -> Any:
    return lax.bitwise_or(x, y) if x.dtype == dtypes.bool else lax.add(x, y)


def _mul(x: Any, y: Any) -> Any:
    return lax.bitwise_and(x, y) if x.dtype == dtypes.bool else lax.mul(x, y)


def _reversed(function: Any) -> Any:
    return lambda x, y: function(y, x)


def _refuse_negation(array: Any) -> Any:
    if array.dtype == dtypes.bool:
        raise ArgumentError("neg: bool has no negation. Got a bool operand. Use the comparison with False instead.")
    return lax.neg(array)


ARITHMETIC = (
    Row("add.Tensor(Tensor self, Tensor other) -> Tensor", elementwise("add", _add), "self + other"),
    Row("add.Scalar(Tensor self, Scalar other) -> Tensor", elementwise("add", _add), "self + other", operand=("other",)),
    Row(
        "add.scaled(Tensor self, Tensor other, *, Scalar alpha) -> Tensor",
        _scaled("add", lax.add),
        "self + alpha * other",
        operand=("alpha",),
    ),
    Row(
        "sub.Tensor(Tensor self, Tensor other) -> Tensor",
        elementwise("sub", lax.sub, check=_refuse_bool),
        "self - other",
    ),
    Row(
        "sub.Scalar(Tensor self, Scalar other) -> Tensor",
        elementwise("sub", lax.sub, check=_refuse_bool),
        "self - other",
        operand=("other",),
    ),
    Row(
        "sub.scaled(Tensor self, Tensor other, *, Scalar alpha) -> Tensor",
        _scaled("sub", lax.sub),
        "self - alpha * other",
        operand=("alpha",),
    ),
    Row(
        "rsub.Scalar(Tensor self, Scalar other) -> Tensor",
        elementwise("rsub", _reversed(lax.sub), check=_refuse_bool),
        "other - self",
        operand=("other",),
    ),
    Row("mul.Tensor(Tensor self, Tensor other) -> Tensor", elementwise("mul", _mul), "self * other"),
    Row("mul.Scalar(Tensor self, Scalar other) -> Tensor", elementwise("mul", _mul), "self * other", operand=("other",)),
    Row(
        "div.Tensor(Tensor self, Tensor other) -> Tensor",
        elementwise("div", lax.div, floating=True),
        "self / other, floating for integers too",
    ),
    Row(
        "div.Scalar(Tensor self, Scalar other) -> Tensor",
        elementwise("div", lax.div, floating=True),
        "self / other, floating for integers too",
        operand=("other",),
    ),
    Row(
        "rdiv.Scalar(Tensor self, Scalar other) -> Tensor",
        elementwise("rdiv", _reversed(lax.div), floating=True),
        "other / self, floating for integers too",
        operand=("other",),
    ),
    Row("neg(Tensor self) -> Tensor", _refuse_negation, "-self"),
)

# Elementary functions -------------------------------------------------------------------------------------------


def _sigmoid_gradient(g: Any, y: Any) -> Any:
    return g * y * (strong(1, y) - y)


FUNCTIONS = (
    Row(
        "exp(Tensor self) -> Tensor",
        on_floating(lax.exp),
        "e to the power of self",
        derivative=from_output(lambda g, y: g * y),
    ),
    Row(
        "tanh(Tensor self) -> Tensor",
        on_floating(lax.tanh),
        "hyperbolic tangent",
        derivative=from_output(lambda g, y: g * (strong(1, y) - y * y)),
    ),
)

ROWS = (*ARITHMETIC, *FUNCTIONS)
