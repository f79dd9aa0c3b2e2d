"""Activations, computed item by item; the names of ``oplib.nn.functional``."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Function, NetworkRow, Row
from oplib.builtin.shared_kernels.promotion import in_single, strong
from oplib.errors import ArgumentError, ArgumentValueError


def make_activation(schema: str, function: Function, doc: str, dtypes: str = "hf", **facts: Any) -> Row:
    """Makes a row that computes half precision in single; its numbers are static: few values occur."""

    def kernel(self: Any, *numbers: Any, **named: Any) -> Any:
        return in_single(lambda x: function(x, *numbers, **named))(self)

    known: dict[str, Any] = {"in_place": True, "result": "items", **facts}
    return NetworkRow(schema, kernel, doc, dtypes=dtypes, **known)


def _where_positive(x: Any, above: Any, below: Any) -> Any:
    return jnp.where(x > 0, above, below)


def _expm1_below(x: Any) -> Any:
    """Returns exp(x) - 1 for negative x, and a finite value elsewhere, so that no gradient becomes nan."""
    return _expm1(jnp.where(x > 0, 0, x))


@jax.custom_jvp
def _expm1(x: Any) -> Any:
    return lax.expm1(x)


@_expm1.defjvp
def _differentiate_expm1(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Computes exp(x): JAX adds 1 to the result, which near -1 loses its digits."""
    return _expm1(*primals), lax.exp(*primals) * tangents[0]


def _leaky_relu(x: Any, negative_slope: float) -> Any:
    return _where_positive(x, x, x * negative_slope)


def _elu(x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    below = (alpha * scale) * _expm1_below(x * input_scale)
    return _where_positive(x, x * scale, below)


def _selu(x: Any) -> Any:
    return _elu(x, 1.6732632423543772, 1.0507009873554805, 1.0)


def _celu(x: Any, alpha: float) -> Any:
    return _where_positive(x, x, alpha * _expm1_below(x / alpha))


def _gelu(x: Any, *, approximate: str) -> Any:
    if approximate not in ("none", "tanh"):
        raise ArgumentError("approximate must be either 'none' or 'tanh'", "Leave it out for 'none'.")
    if approximate == "tanh":
        cubed = x + 0.044715 * x * x * x
        return 0.5 * x * (1 + lax.tanh(math.sqrt(2 / math.pi) * cubed))
    return 0.5 * x * (1 + lax.erf(x * math.sqrt(0.5)))


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    is_linear = scaled > threshold
    soft = lax.log1p(lax.exp(jnp.where(is_linear, 0, scaled)))
    return jnp.where(is_linear, x, soft / beta)


def _hardtanh(x: Any, min_val: float, max_val: float) -> Any:
    if min_val > max_val:
        raise ArgumentValueError("min_val cannot be greater than max_val", "Exchange them.")
    if x.dtype.kind in "iu":
        min_val, max_val = int(min_val), int(max_val)
        if x.dtype.kind == "u" and min(min_val, max_val) < 0:
            raise ArgumentError(
                "cannot be done on an unsigned type with negative limits", "Convert it to a signed dtype."
            )
    return keep_within(x, strong(min_val, x), strong(max_val, x))


def keep_within(x: Any, low: Any, high: Any) -> Any:
    """Keeps items between two bounds; the gradient is 0 outside the open interval, and at nan."""
    kept = lax.stop_gradient(jnp.where(x <= low, low, jnp.where(x >= high, high, x)))
    return jnp.where((x > low) & (x < high), x, kept)


def _hardswish(x: Any) -> Any:
    is_below, is_above = x <= -3, x >= 3
    between = jnp.where(is_below | is_above, 0, x)  # a finite argument, so that no gradient becomes nan
    inside = between * (between + 3) / 6
    return jnp.where(is_below, lax.stop_gradient(x * 0), jnp.where(is_above, x, inside))


def _logsigmoid(x: Any) -> Any:
    is_negative = x < 0
    away = jnp.where(is_negative, x, -x)  # -abs(x), with a one-sided derivative at 0
    return jnp.where(is_negative, x, 0) - lax.log1p(lax.exp(away))


ROWS = (
    make_activation(
        "leaky_relu(Tensor self, float negative_slope=0.01) -> Tensor",
        _leaky_relu,
        "self where positive, otherwise negative_slope * self; the gradient at 0 is negative_slope",
        in_place_functions=("nn.functional.leaky_relu_",),
        inplace_at=2,
    ),
    make_activation(
        "elu(Tensor self, float alpha=1., float scale=1., float input_scale=1.) -> Tensor",
        _elu,
        "self where positive, otherwise alpha * (exp(self) - 1)",
        in_place_functions=("nn.functional.elu_",),
        inplace_at=2,
    ),
    make_activation(
        "selu(Tensor self) -> Tensor",
        _selu,
        "elu with the constants that preserve mean and variance",
        in_place_functions=("selu_", "nn.functional.selu_"),
        inplace_at=1,
    ),
    make_activation(
        "celu(Tensor self, float alpha=1.) -> Tensor",
        _celu,
        "self where positive, otherwise alpha * (exp(self / alpha) - 1)",
        in_place_functions=("celu_", "nn.functional.celu_"),
        inplace_at=2,
    ),
    make_activation(
        "gelu(Tensor self, *, str approximate='none') -> Tensor",
        _gelu,
        "self times the normal distribution function of self, exact or approximated by tanh",
    ),
    make_activation(
        "silu(Tensor self) -> Tensor",
        jax.nn.silu,
        "self * sigmoid(self)",
        "hfc",
        inplace_at=1,
    ),
    make_activation("mish(Tensor self) -> Tensor", jax.nn.mish, "self * tanh(softplus(self))", inplace_at=1),
    make_activation(
        "softplus(Tensor self, float beta=1., float threshold=20.) -> Tensor",
        _softplus,
        "log(1 + exp(beta * self)) / beta, and self where beta * self is above threshold",
        autocast="cuda float32",
    ),
    make_activation(
        "hardtanh(Tensor self, float min_val=-1., float max_val=1.) -> Tensor",
        _hardtanh,
        "self, limited to [min_val, max_val]; the gradient at the bounds is 0",
        "ihf",
        in_place_functions=("nn.functional.hardtanh_",),
        inplace_at=3,
    ),
    make_activation(
        "relu6(Tensor self) -> Tensor",
        lambda x: _hardtanh(x, 0.0, 6.0),
        "self, limited to [0, 6]",
        "ihf",
        inplace_at=1,
    ),
    make_activation(
        "hardswish(Tensor self) -> Tensor", _hardswish, "self * relu6(self + 3) / 6", inplace_at=1
    ),
    make_activation(
        "logsigmoid(Tensor self) -> Tensor",
        _logsigmoid,
        "log(sigmoid(self)), accurate where sigmoid is near 0",
    ),
)
