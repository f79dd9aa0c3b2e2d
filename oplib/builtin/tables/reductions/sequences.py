"""Differences of neighbours along a dim, and integrals by the trapezoidal rule."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.kernels.dims import find_dim
from oplib.builtin.kernels.promotion import broadcast, in_single, promote_operands, to_floating_dtype
from oplib.builtin.rows.row import Row
from oplib.builtin.tables.shapes.movement import concatenate
from oplib.errors import ArgumentError, DimensionError

from .scan import sum_in_tree


def _diff(self: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    if not self.ndim or n < 0:
        raise ArgumentError(
            "expects input to be at least one-dimensional, and n not to be negative",
            "Add a dimension with unsqueeze.",
        )
    axis = find_dim("diff", self.ndim, dim)
    if not n:
        return self
    items = concatenate([part for part in (prepend, self, append) if part is not None], dim)
    return jnp.diff(items, min(n, items.shape[axis]), axis)


def _integrate(op: str, add: Any, y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
    if not y.ndim:
        raise DimensionError("expects a dim to integrate along", "Add one.")
    if "b" in (y.dtype.kind, x is not None and x.dtype.kind):
        raise ArgumentError("bools are not supported", "Convert them: tensor.float().")
    axis = find_dim(op, y.ndim, dim)
    dtype = to_floating_dtype(promote_operands(*(given for given in (y, x) if given is not None)))
    heights, before = lax.convert_element_type(y, dtype), (slice(None),) * axis
    sums = heights[(*before, slice(1, None))] + heights[(*before, slice(-1))]
    if x is not None:
        dx = _diff(lax.convert_element_type(x, dtype), 1, dim if x.ndim > 1 else -1)
        if x.ndim == 1:
            dx = lax.expand_dims(dx, range(1, y.ndim - axis))
        sums, dx = broadcast([sums, dx])
    return in_single(partial(add, axis=axis))(sums * dx * 0.5)


_SHARED: dict[str, Any] = {"operand": ("dx",), "autocast": "cuda float32"}
ROWS = (
    Row(
        "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
        _diff,
        "differences of neighbours along a dim, taken n times; of bools, whether they differ",
    ),
    Row(
        "trapezoid(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor",
        partial(_integrate, "trapezoid", jnp.sum),
        "the integral along a dim by the trapezoidal rule",
        aliases=("trapz",),
        **_SHARED,
    ),
    Row(
        "cumulative_trapezoid(Tensor y, Tensor? x=None, *, Scalar dx=1, int dim=-1) -> Tensor",
        partial(_integrate, "cumulative_trapezoid", lax.cumsum),
        "integrals up to each position along a dim by the trapezoidal rule",
        kernels=(("cpu", partial(_integrate, "cumulative_trapezoid", sum_in_tree)),),
        **_SHARED,
    ),
)
