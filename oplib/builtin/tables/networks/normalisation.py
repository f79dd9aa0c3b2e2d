"""Normalisation: softmax and related functions, and normalisation of mean and variance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.dims import find_dim, find_dims
from oplib.builtin.shared_kernels.promotion import in_single, strong
from oplib.builtin.tables.reductions.moments import compute_norm
from oplib.errors import ArgumentError, DimensionError
from oplib.library import Derivative
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import HALF

# Softmax ----------------------------------------------------------------------------------------------------


def _normalise_along(function: Any, self: Any, dim: int, *, dtype: Any = None) -> Any:
    array = self if dtype is None else lax.convert_element_type(self, dtype)
    axis = find_dim(array.ndim, dim)
    if not array.ndim:
        return in_single(lambda x: lax.squeeze(function(lax.expand_dims(x, (0,)), 0), (0,)))(array)
    return in_single(lambda x: function(x, axis))(array) if array.size else array


def _save_output(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:  # noqa: ARG001  the signature is fixed
    ctx.save_for_backward(output)
    ctx.dim, ctx.dtype = inputs[1], inputs[0].dtype


def _differentiate_along(formula: Any, ctx: Any, g: Any) -> Any:
    """Computes a formula of the gradient, the result, and a function that sums along the dim."""
    (y,) = ctx.saved_tensors
    axis = find_dim(y.ndim, ctx.dim)
    sum_up = partial(jnp.sum, axis=axis if y.ndim else (), keepdims=True)
    found = in_single(lambda g, y: formula(g, y, sum_up))(g, y)
    return lax.convert_element_type(found, ctx.dtype), None


def _differentiate_softmax(g: Any, y: Any, sum_up: Any) -> Any:
    weighted = g * y
    return weighted - y * sum_up(weighted)


def _differentiate_log_softmax(g: Any, y: Any, sum_up: Any) -> Any:
    return g - lax.exp(y) * sum_up(g)


_ALONG = "(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"
SOFTMAX = (
    Row(
        f"softmax{_ALONG}",
        partial(_normalise_along, jax.nn.softmax),
        "exp(self), divided by its sum along a dim",
        derivative=Derivative(
            backward=partial(_differentiate_along, _differentiate_softmax), setup_context=_save_output
        ),
        dtypes="hf",
        result="shape",
        network_name="softmax",
        autocast="cuda float32",
    ),
    Row(
        f"log_softmax{_ALONG}",
        partial(_normalise_along, jax.nn.log_softmax),
        "logarithm of softmax",
        derivative=Derivative(
            backward=partial(_differentiate_along, _differentiate_log_softmax), setup_context=_save_output
        ),
        dtypes="hf",
        result="shape",
        network_name="log_softmax",
        autocast="cuda float32",
    ),
    Row(
        f"softmin{_ALONG}",
        partial(_normalise_along, lambda x, axis: jax.nn.softmax(-x, axis)),
        "softmax of -self",
        source="torch.nn.functional.softmin",
        dtypes="hf",
        result="shape",
        autocast="cuda float32",
    ),
)

# Mean and variance ------------------------------------------------------------------------------------------


def _check_shape(array: Any, normalized_shape: Sequence[int], *others: Any) -> tuple[int, ...]:
    """Returns the axes of ``normalized_shape``, which must be the last axes of the input."""
    shape, count = tuple(normalized_shape), len(normalized_shape)
    if not count or array.shape[-count:] != shape or array.ndim < count:
        raise ArgumentError(
            f"given normalized_shape={list(shape)}, expected input with shape [*, "
            f"{', '.join(map(str, shape))}]",
            "Name the sizes of the last axes.",
        )
    for other in others:
        if other is not None and other.shape != shape:
            raise ArgumentError(
                "expected weight and bias of the same shape as normalized_shape", "Reshape it."
            )
    return tuple(range(array.ndim - count, array.ndim))


def _standardise(x: Any, axes: Sequence[int], eps: float) -> Any:
    away = x - jnp.mean(x, axis=tuple(axes), keepdims=True)
    variance = jnp.mean(lax.square(away), axis=tuple(axes), keepdims=True)
    return away * lax.rsqrt(variance + eps)


def _scale(x: Any, weight: Any, bias: Any, shape: Sequence[int]) -> Any:
    if weight is not None:
        x = x * jnp.broadcast_to(lax.reshape(weight, shape), x.shape)
    return x if bias is None else x + jnp.broadcast_to(lax.reshape(bias, shape), x.shape)


def _normalise(
    input: Any, weight: Any, bias: Any, axes: Sequence[int], shape: Sequence[int], eps: float
) -> Any:
    compute = in_single(lambda x, w, b: _scale(_standardise(x, axes, eps), w, b, shape))
    return compute(input, weight, bias)


def _layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    axes = _check_shape(input, normalized_shape, weight, bias)
    _check_parameters(input, weight, bias)
    shape = (1,) * axes[0] + tuple(normalized_shape)
    return _normalise(input, weight, bias, axes, shape, eps)


def _rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    axes = _check_shape(input, normalized_shape, weight)
    shape = (1,) * axes[0] + tuple(normalized_shape)
    precision = dtypes.float32 if input.dtype in HALF else input.dtype
    small = float(jnp.finfo(precision).eps) if eps is None else eps

    def compute(x: Any, w: Any) -> Any:
        mean = jnp.mean(lax.square(x), axis=axes, keepdims=True)
        return _scale(x * lax.rsqrt(mean + small), w, None, shape)

    return in_single(compute)(input, weight)


def _check_parameters(input: Any, *parameters: Any) -> None:
    """Checks that parameters have the dtype of the input; half precision also allows float32 parameters."""
    allowed = {input.dtype, dtypes.float32} if input.dtype in HALF else {input.dtype}
    if any(parameter is not None and parameter.dtype not in allowed for parameter in parameters):
        raise ArgumentError(
            "expected the parameters to have the dtype of the input", "Convert them: tensor.to(dtype)."
        )


def _channel_shape(x: Any) -> tuple[int, ...]:
    return (1, x.shape[1], *(1,) * (x.ndim - 2))


def _group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise ArgumentError(
            "expected number of channels in input to be divisible by num_groups",
            "Choose a divisor of the size of axis 1.",
        )
    _check_channels(input, weight, bias)

    def compute(x: Any, w: Any, b: Any) -> Any:
        grouped = lax.reshape(x, (x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:]))
        flat = _standardise(grouped, range(2, grouped.ndim), eps)
        return _scale(lax.reshape(flat, x.shape), w, b, _channel_shape(x))

    return in_single(compute)(input, weight, bias)


def _instance_norm(input: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if input.ndim < 3:
        raise ArgumentError(
            "expected input with at least 3 axes: batch, channels, places", "Add an axis with unsqueeze."
        )
    _check_channels(input, weight, bias)
    return _normalise(input, weight, bias, range(2, input.ndim), _channel_shape(input), eps)


def _check_channels(input: Any, *others: Any) -> None:
    if input.ndim < 2:
        raise DimensionError("expected at least 2 axes: batch and channels", "Add one by unsqueeze.")
    _check_parameters(input, *others)
    for other in others:
        if other is not None and other.shape != (input.shape[1],):
            raise ArgumentError("expected one number for each channel", f"Give {input.shape[1]} of them.")


def _batch_norm(input: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    """Returns the normalised batch and its moments, which update the running moments."""
    _check_channels(input, weight, bias)
    axes = (0, *range(2, input.ndim))
    is_half = input.dtype in (dtypes.float16, dtypes.bfloat16)
    wide = lax.convert_element_type(input, dtypes.float32) if is_half else input
    mean = jnp.mean(wide, axis=axes)
    variance = jnp.mean(lax.square(wide - lax.reshape(mean, _channel_shape(wide))), axis=axes)
    return _normalise(input, weight, bias, axes, _channel_shape(input), eps), mean, variance


def _batch_norm_fixed(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    _check_channels(input, running_mean, running_var, weight, bias)

    def compute(x: Any, mean: Any, variance: Any, w: Any, b: Any) -> Any:
        shape = _channel_shape(x)
        away = x - lax.reshape(lax.convert_element_type(mean, x.dtype), shape)
        root = lax.rsqrt(lax.convert_element_type(variance, x.dtype) + eps)
        return _scale(away * lax.reshape(root, shape), w, b, shape)

    return in_single(compute)(input, running_mean, running_var, weight, bias)


def _normalize(input: Any, p: float = 2.0, dim: Sequence[int] = (1,), eps: float = 1e-12) -> Any:
    axes = find_dims(input, dim)

    def compute(x: Any) -> Any:
        length = compute_norm(x, p, axes, keepdim=True)
        least = strong(eps, length)
        return x / lax.convert_element_type(jnp.where(length < least, least, length), x.dtype)

    return in_single(compute)(input)


def _row(schema: str, kernel: Any, doc: str, dtypes: str = "hf", **facts: Any) -> Row:
    source = f"torch.nn.functional.{schema.partition('(')[0]}"
    return Row(schema, kernel, doc, source=source, dtypes=dtypes, **facts)


ROWS = (
    *SOFTMAX,
    _row(
        "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
        "float eps=1e-05) -> Tensor",
        _layer_norm,
        "input, normalised to mean 0 and variance 1 over the last axes, then scaled and shifted",
        result="shape",
        autocast="cuda float32",
    ),
    _row(
        "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
        _rms_norm,
        "input, normalised to mean square 1 over the last axes, then scaled",
        "hfc",
        result="shape",
        autocast="cuda float32",
    ),
    _row(
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)"
        " -> Tensor",
        _group_norm,
        "input, normalised to mean 0 and variance 1 over groups of channels, then scaled and shifted",
        result="shape",
        autocast="cuda float32",
    ),
    Row(
        "native_instance_norm(Tensor input, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> "
        "Tensor",
        _instance_norm,
        "input, normalised to mean 0 and variance 1 over each channel, then scaled and shifted",
        source="torch.nn.functional.instance_norm",
        dtypes="hf",
        is_internal=True,
    ),
    Row(
        "native_batch_norm(Tensor input, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)"
        " -> (Tensor, Tensor, Tensor)",
        _batch_norm,
        "input, normalised per channel over the batch, then scaled and shifted; and the moments",
        source="torch.nn.functional.batch_norm",
        dtypes="hf",
        is_internal=True,
    ),
    Row(
        "fixed_batch_norm(Tensor input, Tensor running_mean, Tensor running_var, Tensor? weight=None, "
        "Tensor? bias=None, float eps=1e-05) -> Tensor",
        _batch_norm_fixed,
        "batch_norm with given moments",
        source="torch.nn.functional.batch_norm",
        dtypes="hf",
        is_internal=True,
    ),
    _row(
        "normalize(Tensor input, float p=2., int[1] dim=[1], float eps=1e-12) -> Tensor",
        _normalize,
        "input, divided by its norm along a dim",
        "hfc",
        result="shape",
    ),
)
