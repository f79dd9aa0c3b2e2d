"""Decompositions that return a status instead of raising: 0, or where they failed."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import DecompositionRow
from oplib.library.batching_and_sharding.varying import match_varying
from oplib.tensor.dtypes import names as dtypes

from .decompositions import cholesky, solve
from .triangles import find_zero


def _cholesky_ex(self: Any, *, upper: bool = False, check_errors: bool = False) -> tuple[Any, Any]:  # noqa: ARG001  checked around the call
    factor = cholesky(self, upper=upper)
    failed = jnp.any(jnp.isnan(lax.stop_gradient(factor)), (-2, -1))
    none, failed = match_varying([jnp.zeros(failed.shape, dtypes.int32), failed])
    order = lax.cond(jnp.any(failed), _find_minor, lambda _: none, lax.stop_gradient(self))
    return factor, jnp.where(failed, order, none)


def _find_minor(self: Any) -> Any:
    """Returns the order of the first leading minor that is not positive definite, for each matrix."""
    size = self.shape[-1]
    matrix = (self + self.mT.conj()) / 2

    def eliminate(k: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        rest, found = state
        column = lax.dynamic_index_in_dim(rest, k, self.ndim - 1, keepdims=False)
        pivot = lax.dynamic_index_in_dim(column, k, self.ndim - 2, keepdims=False)
        is_first = (found == 0) & ~(jnp.real(pivot) > 0)
        outer = column[..., :, None] * jnp.conj(column)[..., None, :] / pivot[..., None, None]
        return rest - outer, jnp.where(is_first, lax.convert_element_type(k + 1, dtypes.int32), found)

    start = matrix, jnp.zeros(self.shape[:-2], dtypes.int32)
    if not size:
        return start[1]
    order = lax.fori_loop(0, size, eliminate, tuple(match_varying(start)))[1]
    return jnp.where(order == 0, jnp.full_like(order, size), order)  # it failed by rounding alone


def _solve_ex(self: Any, other: Any, *, left: bool = True, check_errors: bool = False) -> tuple[Any, Any]:  # noqa: ARG001  checked around the call
    solution = solve(self, other, left=left)
    return solution, find_zero(lax.linalg.lu(lax.stop_gradient(self))[0])


ROWS = (
    DecompositionRow(
        "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> "
        "(Tensor L, Tensor info)",
        _cholesky_ex,
        "as linalg_cholesky, with the order of the first leading minor that is not positive definite, or 0; "
        "L is NaN then",
    ),
    DecompositionRow(
        "linalg_solve_ex(Tensor self, Tensor other, *, bool left=True, bool check_errors=False) -> "
        "(Tensor result, Tensor info)",
        _solve_ex,
        "as linalg_solve, with the position of the first 0 on the diagonal of U, counted from 1, or 0",
    ),
)
