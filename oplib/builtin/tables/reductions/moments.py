"""Moments and norms: variances, vector norms and distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.cpu_forms import compute_on_cpu
from oplib.builtin.shared_kernels.dims import find_dim, find_dims
from oplib.builtin.shared_kernels.promotion import (
    find_largest,
    find_smallest,
    in_single,
    is_integral,
    meet,
    strong,
)
from oplib.builtin.tables.pointwise.arithmetic_operators import find_size
from oplib.errors import ArgumentError
from oplib.tensor.devices.layout import find_explicit_mesh
from oplib.tensor.dtypes.rules import COMPLEX
from oplib.tensor.shapes.symbolic import has_symbols

_FEW_DIFFERENCES = 2**15
_DIM = "int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False"

# Variances --------------------------------------------------------------------------------------------------


def _var(self: Any, axes: Sequence[int], correction: float, keepdim: bool) -> Any:
    count = math.prod(self.shape[axis] for axis in axes)
    away = self - jnp.mean(self, axis=tuple(axes), keepdims=True)
    total = jnp.sum(_square_size(away), axis=tuple(axes), keepdims=keepdim)
    return total / max(count - correction, 0)


@partial(compute_on_cpu, by=lax.sqrt)
def _sqrt(array: Any) -> Any:
    """Returns a root whose gradient at 0 is 0."""
    is_zero = array == 0
    return jnp.where(is_zero, array, lax.sqrt(jnp.where(is_zero, 1, array)))


def _scaled_std(array: Any, axes: Sequence[int], correction: float, keepdim: bool) -> Any:
    # Divided by a power of two near the largest item, squares stay in the range of the dtype. The size of
    # a quarter of an item is finite; the reciprocal of the scale is normal, and so is its gradient.
    info = jnp.finfo(array.dtype)
    part = lax.abs(lax.stop_gradient(array) * 0.25)
    top = jnp.max(part, tuple(axes), keepdims=True, initial=math.sqrt(info.tiny))
    scale = lax.reduce_precision(top, info.nexp, 0)
    smaller = array * lax.convert_element_type(1 / scale, array.dtype)
    root = _sqrt(_var(smaller, axes, correction, keepdim))
    return root * lax.reshape(scale, root.shape)


def _std(array: Any, **options: Any) -> Any:
    """Returns what :func:`_scaled_std` does; without a scale, in half of the time, if no square needs one."""
    variance, info = _var(array, **options), jnp.finfo(array.dtype)
    is_exact = (variance > info.tiny / info.eps) & (variance < math.inf)
    return lax.cond(jnp.all(is_exact), lambda: lax.sqrt(variance), lambda: _scaled_std(array, **options))


def _moment(*forms: Any, has_mean: bool = False) -> Any:
    """Makes the kernel of a moment from its form, and from that of CPUs if they have another one."""

    def kernel(
        self: Any, dim: Sequence[int] | None, *, correction: float | None = None, keepdim: bool = False
    ) -> Any:
        axes = find_dims(self, dim)
        options = {"axes": axes, "correction": 1 if correction is None else correction, "keepdim": keepdim}
        compute, *others = (partial(form, **options) for form in forms)
        moment = in_single(compute_on_cpu(compute, *others) if others else compute)(self)
        return (moment, jnp.mean(self, axis=axes, keepdims=keepdim)) if has_mean else moment

    return kernel


VARIANCES = (
    Row(
        f"var(Tensor self, {_DIM}) -> Tensor",
        _moment(_var),
        "variance, with the divisor count - correction",
        dtypes="hfc",
        out=True,
    ),
    Row(
        f"std(Tensor self, {_DIM}) -> Tensor",
        _moment(_scaled_std, _std),
        "standard deviation; the gradient of a result of 0 is 0",
        dtypes="hfc",
        out=True,
    ),
    Row(
        f"var_mean(Tensor self, {_DIM}) -> (Tensor, Tensor)",
        _moment(_var, has_mean=True),
        "variance and mean",
        dtypes="hfc",
    ),
    Row(
        f"std_mean(Tensor self, {_DIM}) -> (Tensor, Tensor)",
        _moment(_scaled_std, _std, has_mean=True),
        "standard deviation and mean",
        dtypes="hfc",
    ),
)

# Norms ------------------------------------------------------------------------------------------------------


def _abs(array: Any) -> Any:
    """Returns absolute values, whose gradient at 0 and at nan is 0."""
    if array.dtype not in COMPLEX:
        return find_size(array)
    is_zero = array == 0
    size = lax.abs(jnp.where(is_zero, 1, array))
    return jnp.where(is_zero, 0, size)


def compute_norm(array: Any, order: float, axes: Sequence[int], keepdim: bool) -> Any:
    """Returns the vector norm over given axes; its gradient at the origin is 0."""
    return _find_root(_add_powers(array, order, axes, keepdim), order)


def _add_powers(array: Any, order: float, axes: Sequence[int], keepdim: bool) -> Any:
    """Returns that of which the norm is the root; the norm itself for the orders 0, 1 and infinity."""
    add = partial(jnp.sum, axis=tuple(axes), keepdims=keepdim)
    if order == 2:
        return add(_square_size(array))
    sizes = _abs(array)
    if order == 0:
        return add(lax.convert_element_type(sizes != 0, sizes.dtype))
    if order == 1 or not array.size:
        return add(sizes)
    if math.isinf(order):
        return (find_largest if order > 0 else find_smallest)(sizes, axis=tuple(axes), keepdims=keepdim)
    return add(take_power(sizes, order))


def _find_root(total: Any, order: float) -> Any:
    if order == 2:
        return _sqrt(total)
    return total if order in (0, 1) or math.isinf(order) else take_power(total, 1 / order)


def compute_distances(x: Any, y: Any, order: float) -> Any:
    """Returns the norms of the differences of each row of one matrix and each row of another."""
    away = lax.expand_dims(x, (x.ndim - 1,)) - lax.expand_dims(y, (y.ndim - 2,))
    return compute_norm(away, order, (-1,), keepdim=False)


def compute_distances_by_rows(x: Any, y: Any, order: float) -> Any:
    """Returns the same row by row: on CPUs the differences of all rows take longer than the arithmetic."""
    sizes = *x.shape, y.shape[-2]
    if has_symbols(sizes) or math.prod(sizes) <= _FEW_DIFFERENCES or find_explicit_mesh((x, y)) is not None:
        return compute_distances(x, y, order)

    # The sum runs over rows of ``columns``, which XLA adds as vectors. The backward computes the differences
    # of a row again, instead of storing those of all.
    @jax.checkpoint
    def add(row: Any, columns: Any) -> Any:
        return _add_powers(jnp.expand_dims(row, -1) - columns, order, (-2,), keepdim=False)

    totals = lax.map(partial(add, columns=y.mT), jnp.moveaxis(x, -2, 0))
    return _find_root(jnp.moveaxis(totals, 0, -2), order)


def multiply_distances(x: Any, y: Any) -> Any:
    """Returns the distances of rows by a product of the matrices, which is fast and has fewer digits."""
    products = jnp.matmul(x, y.mT, precision="highest")
    own, others = (jnp.sum(rows * rows, -1, keepdims=True) for rows in (x, y))
    squares = own + others.mT - 2 * products
    return _sqrt(jnp.where(squares < 0, 0, squares))


def take_power(x: Any, exponent: float) -> Any:
    """Returns a power of a number >= 0; its gradient at 0 is 0."""
    is_zero = x == 0
    power = lax.pow(jnp.where(is_zero, 1, x), strong(exponent, x))
    return jnp.where(is_zero, 0 if exponent > 0 else math.inf, power)


def _square_size(array: Any) -> Any:
    if array.dtype in COMPLEX:
        return lax.square(lax.real(array)) + lax.square(lax.imag(array))
    return lax.square(array)


def _vector_norm(
    self: Any, ord: float = 2, dim: Sequence[int] | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if is_integral(self.dtype):
        raise ArgumentError(
            "expected a floating point or complex tensor as input", "Convert it: tensor.float()."
        )
    array = self if dtype is None else lax.convert_element_type(self, dtype)
    axes = find_dims(array, dim)
    if (ord < 0 or math.isinf(ord)) and not math.prod(array.shape[axis] for axis in axes):
        raise ArgumentError(
            f"cannot compute the {ord} norm on an empty dimension, since it has no identity",
            "Choose another order, or a tensor with items.",
        )
    return in_single(lambda given: compute_norm(given, ord, axes, keepdim))(array)


def _renorm(self: Any, p: float, dim: int, maxnorm: float) -> Any:
    axis = find_dim(self.ndim, dim)
    if self.ndim < 2 or p <= 0 or maxnorm < 0:
        raise ArgumentError(
            "expected a tensor of 2 dims at least, a positive p and a maxnorm that is not negative",
            "Give an order and a bound of the norms.",
        )
    axes = [index for index in range(self.ndim) if index != axis]

    def compute(x: Any) -> Any:
        norm = compute_norm(lax.stop_gradient(x), p, axes, keepdim=True)
        bound = strong(maxnorm, norm)
        is_long = norm > bound
        # A slice that is kept may be nan; the gradient must not go through its norm.
        scale = bound / (compute_norm(jnp.where(is_long, x, 0), p, axes, keepdim=True) + 1e-7)
        factor = jnp.where(is_long, scale, 1)
        return x * lax.convert_element_type(factor, x.dtype)

    return in_single(compute)(self)


def _dist(self: Any, other: Any, p: float = 2) -> Any:
    x, y = meet(self, other)
    return _vector_norm(x - y, p)


ROWS = (
    *VARIANCES,
    Row(
        "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
        "ScalarType? dtype=None) -> Tensor",
        _vector_norm,
        "vector norm over given axes, or over all; its gradient at the origin is 0",
        dtypes="hfc",
        autocast="cuda float32",
    ),
    Row(
        "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
        _renorm,
        "the slices along a dim, shortened to a maximal norm",
        in_place=True,
        dtypes="hfc",
        out=True,
        autocast="cuda float32",
    ),
    Row(
        "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
        _dist,
        "norm of the difference",
        dtypes="hfc",
        autocast="cuda float32",
    ),
)
