"""Further activations: shrinkage, thresholds and gates; the names of ``oplib.nn.functional``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import NetworkRow
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.promotion import broadcast_to, check_dtypes, in_single, strong, to_floating
from oplib.builtin.tables.pointwise.arithmetic_operators import find_size
from oplib.errors import ArgumentError

from .activations import keep_within, make_activation


def _threshold(x: Any, threshold: Any, value: Any) -> Any:
    return jnp.where(x <= strong(threshold, x), strong(value, x), x)  # nan is kept


def _hardshrink(x: Any, lambd: float) -> Any:
    near = lax.stop_gradient(jnp.where((x >= -lambd) & (x <= lambd), 0, x))  # nan is kept
    return jnp.where((x < -lambd) | (x > lambd), x, near)


def _softshrink(x: Any, lambd: float) -> Any:
    if lambd < 0:
        raise ArgumentError("lambda must be greater or equal to 0", "Pass 0 or more.")
    return jnp.where(x > lambd, x - lambd, jnp.where(x < -lambd, x + lambd, x * 0))


def _hardsigmoid(x: Any) -> Any:
    three = strong(3, x)
    return (keep_within(x, -three, three) + three) / 6


def _softsign(x: Any) -> Any:
    x = to_floating(x)
    return _divide_by_size(x) if x.dtype.kind != "c" else x / (1 + lax.abs(x).astype(x.dtype))


@jax.custom_jvp
def _divide_by_size(x: Any) -> Any:
    return x / (1 + lax.abs(x))


@_divide_by_size.defjvp
def _differentiate_softsign(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Divides by the square: the difference of two quotients would lose its digits far out."""
    (x,) = primals
    size = 1 + find_size(x)
    return _divide_by_size(x), tangents[0] / (size * size)


def _tanhshrink(x: Any) -> Any:
    x = to_floating(x)
    return x - lax.tanh(x)


def _glu(input: Any, dim: int) -> Any:
    axis = find_dim(input.ndim, dim)
    if not input.ndim or input.shape[axis] % 2:
        raise ArgumentError("halving dimension must be even, and the tensor have one", "Choose another dim.")

    def compute(x: Any) -> Any:
        half = x.shape[axis] // 2
        first, gate = (lax.slice_in_dim(x, start, start + half, axis=axis) for start in (0, half))
        return first * lax.logistic(gate)

    return in_single(compute)(input)


def _prelu(input: Any, weight: Any) -> Any:
    check_dtypes(input, weight)
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.size not in (1, channels):
        raise ArgumentError(
            "the weight has one number, or one for each channel", f"Give {channels} of them, or one."
        )
    shape = (1, channels, *(1,) * (input.ndim - 2)) if weight.size > 1 else (1,) * input.ndim
    factor = broadcast_to(lax.reshape(weight, shape), input.shape)
    return jnp.where(input > 0, input, factor * input)


ROWS = (
    make_activation(
        "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
        _threshold,
        "self where above a threshold, otherwise a value",
        dtypes="ihf",
        in_place_functions=("threshold_", "nn.functional.threshold_"),
        inplace_at=3,
    ),
    make_activation(
        "hardshrink(Tensor self, float lambd=0.5) -> Tensor",
        _hardshrink,
        "self, and 0 where its absolute value is at most lambd",
        in_place=False,
    ),
    make_activation(
        "softshrink(Tensor input, float lambd=0.5) -> Tensor",
        _softshrink,
        "self, moved towards 0 by at most lambd",
        in_place=False,
    ),
    make_activation(
        "hardsigmoid(Tensor self) -> Tensor", _hardsigmoid, "(self + 3) / 6, limited to [0, 1]", inplace_at=1
    ),
    make_activation(
        "softsign(Tensor input) -> Tensor",
        _softsign,
        "self / (1 + abs(self))",
        dtypes="ihfc",
        result="floats",
        in_place=False,
    ),
    make_activation(
        "tanhshrink(Tensor input) -> Tensor",
        _tanhshrink,
        "self - tanh(self)",
        dtypes="ihfc",
        result="floats",
        in_place=False,
    ),
    NetworkRow(
        "glu(Tensor input, int dim=-1) -> Tensor",
        _glu,
        "first half of a dimension times the sigmoid of the second half",
        dtypes="hf",
    ),
    NetworkRow(
        "prelu(Tensor self, Tensor weight) -> Tensor",
        _prelu,
        "self where positive, otherwise weight * self, with one weight per channel",
        dtypes="hf",
        autocast="low",
    ),
)
