"""Arithmetic operators: sums, differences, products, quotients, powers and absolute values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from oplib.autograd.array_functions.masks import pick_given
from oplib.builtin.rows.row import ItemRow, save_inputs
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    compute_dtype,
    elementwise,
    in_single,
    is_integral,
    promote_operands,
    sum_like,
)
from oplib.errors import ArgumentError
from oplib.library import Derivative
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import COMPLEX

from .shared_rows import ONE_NUMBER, make_pairs


def _refuse_bool(*operands: Any) -> None:
    if any(operand.dtype == dtypes.bool for operand in operands):
        raise ArgumentError(
            "subtraction with a bool operand is not supported", "Use the comparison !=, or convert it first."
        )


def _add_scaled(function: Any, self: Any, other: Any, *, alpha: Any, check: Any = None) -> Any:
    """Computes ``add`` or ``sub`` with ``alpha``."""
    if check is not None:
        check(self, other)
    dtype = promote_operands(self, other)
    if is_integral(dtype) and not is_integral(alpha.dtype):
        raise ArgumentError(
            "for integral input tensors, argument 'alpha' must not be a floating point number",
            "Convert one of the operands.",
        )
    own = compute_dtype(dtype, (self, other, alpha))
    x, y = broadcast([lax.convert_element_type(operand, own) for operand in (self, other)])
    factor = lax.broadcast(lax.convert_element_type(alpha, own), y.shape)
    return lax.convert_element_type(function(x, _mul(y, factor)), dtype)


def _add(x: Any, y: Any) -> Any:
    return lax.bitwise_or(x, y) if x.dtype == dtypes.bool else lax.add(x, y)


def _mul(x: Any, y: Any) -> Any:
    return lax.bitwise_and(x, y) if x.dtype == dtypes.bool else lax.mul(x, y)


def _reversed(function: Any) -> Any:
    return lambda x, y: function(y, x)


@jax.custom_jvp
def find_quotient(x: Any, y: Any) -> Any:
    """Divides as JAX does, with a derivative that squares nothing."""
    return lax.div(x, y)


@partial(find_quotient.defjvp, symbolic_zeros=True)
def _differentiate_quotient(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Divides by y twice, as torch does: its square is 0 or inf long before y is.

    The order matters: transposed it is (g / y) * value, whereas XLA makes a square of (g * value) / y.
    """
    (x, y), (of_x, of_y) = primals, tangents
    value = find_quotient(x, y)
    parts = [] if isinstance(of_x, SymbolicZero) else [find_quotient(of_x, y)]
    parts += [] if isinstance(of_y, SymbolicZero) else [-find_quotient(value * of_y, y)]
    return value, sum(parts[1:], parts[0])


def _neg(array: Any) -> Any:
    return lax.neg(array)


def _abs(array: Any) -> Any:
    if array.dtype.kind == "u":
        return array
    size = lax.abs(array)
    if array.dtype.kind != "c":
        return size
    is_infinite = jnp.isinf(lax.real(array)) | jnp.isinf(lax.imag(array))  # where the other part is nan too
    return jnp.where(is_infinite, jnp.inf, size)


def find_sign(x: Any) -> Any:
    """Returns the sign of a real number; the sign of nan is 0, as in torch, and that of -0. too."""
    above = lax.convert_element_type(x > 0, x.dtype)
    return above if x.dtype.kind == "u" else jnp.where(x < 0, -1, above)


@jax.custom_jvp
def find_size(x: Any) -> Any:
    """Returns absolute values of real numbers, whose gradient at 0 and at nan is 0."""
    return lax.abs(x)


@find_size.defjvp
def _push_size(primals: Any, tangents: Any) -> tuple[Any, Any]:
    return lax.abs(primals[0]), tangents[0] * find_sign(primals[0])


def find_direction(x: Any) -> Any:
    """Returns the sign; for a complex number x / abs(x), because JAX's sign has no derivative there."""
    if x.dtype.kind != "c":
        return find_sign(x)
    size = lax.abs(x)
    is_zero = size == 0
    safe = lax.convert_element_type(jnp.where(is_zero, 1, size), x.dtype)
    return jnp.where(is_zero, 0, x / safe)


def _abs_backward(ctx: Any, g: Any) -> Any:
    (x,) = ctx.saved_tensors
    return lax.convert_element_type(g, x.dtype) * find_direction(x)  # 0 at 0, where JAX has 1; g is real


def _kernel_pow(x: Any, exponent: Any) -> Any:
    if not is_integral(x.dtype):
        return lax.pow(x, exponent)
    if x.dtype.kind != "i":
        return jnp.power(x, exponent)
    positive = jnp.power(x, lax.abs(exponent))
    is_unit = lax.abs(x) == 1
    return jnp.where((exponent >= 0) | is_unit, positive, 0)  # 1 / x, rounded towards zero


def _pow_int(self: Any, exponent: int) -> Any:
    if exponent < 0 and is_integral(self.dtype):
        raise ArgumentError(
            "integers to negative integer powers are not allowed", "Convert the tensor to a floating dtype."
        )
    own = default_int_dtype() if self.dtype == dtypes.bool else self.dtype
    return in_single(lambda x: lax.integer_pow(x, exponent))(lax.convert_element_type(self, own))


def _save_pow(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs, output if ctx.needs_input_grad[1] else None)


def _pow_backward(ctx: Any, g: Any) -> Any:
    """Returns torch's gradients in special cases: x**0 has none, and 0**y for y >= 0 has none by y."""
    x, exponent, y = ctx.saved_tensors
    are_real = [value.dtype not in COMPLEX for value in (x, exponent)]
    own = compute_dtype(g.dtype, (x, exponent))
    arrays = pick_given((g, x, exponent, y))
    g, x, exponent, *result = broadcast([lax.convert_element_type(value, own) for value in arrays])
    by_base, by_exponent = None, None
    if ctx.needs_input_grad[0]:
        slope = exponent * lax.pow(x, jnp.where(exponent == 0, 0, exponent - 1))
        by_base = jnp.where(exponent == 0, 0, g * jnp.conj(slope))
    if ctx.needs_input_grad[1]:
        flat = (x == 0) & (exponent >= 0)
        slope = jnp.where(flat, 0, result[0] * lax.log(jnp.where(flat, 1, x)))
        by_exponent = g * jnp.conj(slope)
    return sum_like(list(map(_cut_to_real, (by_base, by_exponent), are_real)), ctx.saved_tensors[:2])


def _cut_to_real(grad: Any, is_real: bool) -> Any:
    """Returns the real part of the gradient for a real operand beside a complex one."""
    return lax.real(grad) if is_real and grad is not None and grad.dtype in COMPLEX else grad


POW = Derivative(backward=_pow_backward, setup_context=_save_pow)


# Overloads with a number come first: a packet calls the first overload that fits, and a tensor argument
# accepts a number too.
ROWS = (
    *make_pairs("add", elementwise(_add), "self + other", kinds=ONE_NUMBER),
    ItemRow(
        "add.scaled(Tensor self, Tensor other, *, Scalar alpha) -> Tensor",
        partial(_add_scaled, _add),
        "self + alpha * other",
        operand=("alpha",),
    ),
    *make_pairs(
        "sub",
        elementwise(lax.sub, check=_refuse_bool),
        "self - other",
        kinds=ONE_NUMBER,
        dtypes="ihfc",
        aliases=("subtract",),
    ),
    ItemRow(
        "sub.scaled(Tensor self, Tensor other, *, Scalar alpha) -> Tensor",
        partial(_add_scaled, lax.sub, check=_refuse_bool),
        "self - alpha * other",
        operand=("alpha",),
        dtypes="ihfc",
    ),
    ItemRow(
        "rsub.Scalar(Tensor self, Scalar other) -> Tensor",
        elementwise(_reversed(lax.sub), check=_refuse_bool),
        "other - self",
        operand=("other",),
        dtypes="ihfc",
        out=False,
    ),
    *make_pairs("mul", elementwise(_mul), "self * other", kinds=ONE_NUMBER, aliases=("multiply",)),
    *make_pairs(
        "div",
        elementwise(find_quotient, floating=True),
        "self / other, a floating result for integers too",
        kinds=ONE_NUMBER,
        result="mixed",
        aliases=("divide", "true_divide"),
    ),
    ItemRow(
        "rdiv.Scalar(Tensor self, Scalar other) -> Tensor",
        elementwise(_reversed(find_quotient), floating=True),
        "other / self, a floating result for integers too",
        operand=("other",),
        source="torch.Tensor.__rtruediv__",
        result="mixed",
        is_internal=True,
    ),
    ItemRow(
        "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
        elementwise(_kernel_pow),
        "self to the power of exponent",
        derivative=POW,
        operand=("exponent",),
        result="mixed",
        autocast="cuda float32",
    ),
    ItemRow(
        "pow.Tensor_int(Tensor self, int exponent) -> Tensor",
        _pow_int,
        "self to the power of a small integer",
        autocast="cuda float32",
    ),
    ItemRow(
        "pow.Scalar(Scalar self, Tensor exponent) -> Tensor",
        elementwise(_kernel_pow),
        "a number to the power of exponent",
        derivative=POW,
        operand=("self",),
        autocast="cuda float32",
    ),
    ItemRow(
        "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
        elementwise(_kernel_pow),
        "self to the power of exponent",
        derivative=POW,
        in_place=True,
        dtypes="ihfc",
        autocast="cuda float32",
    ),
    ItemRow(
        "neg(Tensor self) -> Tensor",
        _neg,
        "-self",
        dtypes="ihfc",
        aliases=("negative",),
        in_place_functions=("neg_", "negative_"),
    ),
    ItemRow(
        "abs(Tensor self) -> Tensor",
        _abs,
        "absolute value; the gradient at 0 is 0",
        derivative=Derivative(backward=_abs_backward, setup_context=save_inputs),
        dtypes="ihfc",
        result="mixed",
        aliases=("absolute",),
        in_place_functions=("abs_",),
    ),
)
