"""Differences of neighbours along a dim, slopes, and integrals by the trapezoidal rule."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.autograd.array_functions.masks import pick_given
from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    in_single,
    promote_operands,
    to_floating,
    to_floating_dtype,
)
from oplib.builtin.tables.shapes.movement import concatenate
from oplib.errors import ArgumentError, DimensionError

from .scan import sum_in_tree


def _diff(self: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    if not self.ndim or n < 0:
        raise ArgumentError(
            "expects input to be at least one-dimensional, and n not to be negative",
            "Add a dimension with unsqueeze.",
        )
    axis = find_dim(self.ndim, dim)
    if not n:
        return self
    items = concatenate(pick_given((prepend, self, append)), dim)
    return jnp.diff(items, min(n, items.shape[axis]), axis)


def _integrate(add: Any, y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    if not y.ndim:
        raise DimensionError("expects a dim to integrate along", "Add one.")
    if "b" in (y.dtype.kind, x is not None and x.dtype.kind):
        raise ArgumentError("bools are not supported", "Convert them: tensor.float().")
    axis = find_dim(y.ndim, dim)
    dtype = to_floating_dtype(promote_operands(*pick_given((y, x))))
    heights, before = lax.convert_element_type(y, dtype), (slice(None),) * axis
    length = y.shape[axis]
    if x is None and add is jnp.sum and isinstance(length, int) and length > 1:
        # XLA stores the sums of neighbours, which takes five times as long.
        parts = (heights[(*before, part)] for part in (slice(1, -1), 0, -1))
        return in_single(lambda inside, *ends: (jnp.sum(inside, axis) + sum(ends) * 0.5) * dx)(*parts)
    sums = heights[(*before, slice(1, None))] + heights[(*before, slice(-1))]
    if x is not None:
        dx = _diff(lax.convert_element_type(x, dtype), 1, dim if x.ndim > 1 else -1)
        if x.ndim == 1:
            dx = lax.expand_dims(dx, range(1, y.ndim - axis))
        sums, dx = broadcast([sums, dx])
    return in_single(partial(add, axis=axis))(sums * dx * 0.5)


# JAX remembers an array of 64 bits that it traced, and takes it wrongly once x64 is switched.
_ENDS = np.array([[0, 1, 2], [-1, -2, -3]], np.int32)


def _find_slopes(self: Any, spacing: Any, dim: int, edge_order: int) -> Any:
    """Differentiates through three points inside, and through two or three at both ends."""
    spacing = to_floating(spacing) if spacing.ndim else spacing
    dtype = to_floating_dtype(promote_operands(self, spacing))
    items = jnp.moveaxis(lax.convert_element_type(self, dtype), dim, 0)
    spacing = lax.convert_element_type(spacing, dtype)
    slopes: Any = jnp.gradient(items, spacing, axis=0)
    if edge_order == 2:
        steps = jnp.diff(spacing[_ENDS]) if spacing.ndim else spacing * jnp.array([[1, 1], [-1, -1]], dtype)
        pairs = lax.expand_dims(steps, range(2, items.ndim + 1))
        one, two = pairs[:, 0], pairs[:, 1]
        inner, outer = jnp.moveaxis(jnp.diff(items[_ENDS], axis=1) / pairs, 1, 0)
        ends = (inner * (2 * one + two) - outer * one) / (one + two)
        slopes = jnp.concatenate([ends[:1], slopes[1:-1], ends[1:]])
    return jnp.moveaxis(slopes, 0, dim)


_SHARED: dict[str, Any] = {"operand": ("dx",), "autocast": "cuda float32"}
ROWS = (
    Row(
        "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
        _diff,
        "differences of neighbours along a dim, taken n times; of bools, whether they differ",
    ),
    Row(
        "trapezoid(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor",
        partial(_integrate, jnp.sum),
        "the integral along a dim by the trapezoidal rule",
        aliases=("trapz",),
        **_SHARED,
    ),
    Row(
        "cumulative_trapezoid(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor",
        partial(_integrate, lax.cumsum),
        "integrals up to each position along a dim by the trapezoidal rule",
        kernels=(("cpu", partial(_integrate, sum_in_tree)),),
        **_SHARED,
    ),
    *(
        Row(
            f"slopes.{kind}(Tensor self, {kind} spacing, int dim, int edge_order) -> Tensor",
            _find_slopes,
            "slopes along a dim of a function with samples at given distances or positions",
            operand=("spacing",) if kind == "Scalar" else (),
            dtypes="ihfc",
            is_internal=True,
            source="torch.gradient",
        )
        for kind in ("Scalar", "Tensor")
    ),
)
