"""LU factors and solutions by them, products of reflections, and Vandermonde matrices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import DecompositionRow, LinalgRow, Row
from oplib.builtin.shared_kernels.promotion import broadcast_batches, check_dtypes, is_integral
from oplib.errors import ArgumentError
from oplib.library.batching_and_sharding.varying import match_varying
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

from .decompositions import check_matrix, check_system


def _check_pivot(self: Any, pivot: bool) -> None:
    check_matrix(self, is_square=False)
    if not pivot:
        raise ArgumentError("LU without pivoting is not implemented", "Leave it out.")


def _turn(matrix: Any) -> Any:
    return matrix.mT.conj()


# Factors ----------------------------------------------------------------------------------------------------


def _lu_factor(self: Any, *, pivot: bool = True) -> tuple[Any, Any]:
    _check_pivot(self, pivot)
    factors, pivots, _ = lax.linalg.lu(self)
    return factors, pivots + 1  # LAPACK and torch count from 1


def _lu_factor_ex(self: Any, *, pivot: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any]:  # noqa: ARG001  checked around the call
    factors, pivots = _lu_factor(self, pivot=pivot)
    return factors, pivots, find_zero(factors)


def find_zero(factors: Any) -> Any:
    """Returns the first position, from 1, at which the diagonal of U is 0; 0 if there is none."""
    diagonal = jnp.diagonal(factors, axis1=-2, axis2=-1)
    return find_first(diagonal == 0)


def find_first(flags: Any) -> Any:
    """Returns the first position of True along the last axis, counted from 1; 0 if there is none."""
    if not flags.shape[-1]:
        return jnp.zeros(flags.shape[:-1], dtypes.int32)
    first = lax.argmax(flags, flags.ndim - 1, dtypes.int32)
    return jnp.where(jnp.any(flags, -1), first + 1, 0)


def _permute(indices: Any, dtype: Any) -> Any:
    """Returns the matrix with a 1, in each column, in the row that ``places`` names."""
    rows = jnp.arange(indices.shape[-1], dtype=indices.dtype).reshape((1,) * (indices.ndim - 1) + (-1, 1))
    return (rows == lax.expand_dims(indices, (indices.ndim - 1,))).astype(dtype)


def _split(factors: Any) -> tuple[Any, Any]:
    rows, columns = factors.shape[-2:]
    count = min(rows, columns)
    one = jnp.broadcast_to(jnp.eye(rows, count, dtype=factors.dtype), (*factors.shape[:-1], count))
    return jnp.tril(factors[..., :count], -1) + one, jnp.triu(factors[..., :count, :])


def _find_indices(factors: Any, pivots: Any) -> Any:
    check_matrix(factors, is_square=False)
    if pivots.dtype != dtypes.int32 or pivots.shape[-1:] != (min(factors.shape[-2:]),):
        raise ArgumentError(
            "pivots should be int32, one for each row that has one", "Pass the result of linalg.lu_factor."
        )
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, factors.shape[-2])


def _lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, Any, Any]:
    indices = _find_indices(LU_data, LU_pivots)
    nothing = jnp.zeros((0,), LU_data.dtype)
    lower, upper = _split(LU_data) if unpack_data else (nothing, nothing)
    return _permute(indices, LU_data.dtype) if unpack_pivots else nothing, lower, upper


def _lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    check_system(LU, B, left=left)
    indices = _find_indices(LU, pivots)
    factors, right = broadcast_batches(LU, B)
    indices = jnp.broadcast_to(indices, (*right.shape[:-2], indices.shape[-1]))
    if left:
        return _solve_factored(factors, indices, right, adjoint=adjoint)
    return _turn(_solve_factored(factors, indices, _turn(right), adjoint=not adjoint))


def _solve_factored(factors: Any, indices: Any, right: Any, *, adjoint: bool) -> Any:
    solve = lax.linalg.triangular_solve
    if not adjoint:
        moved = jnp.take_along_axis(right, jnp.expand_dims(indices, -1), -2)
        half = solve(factors, moved, left_side=True, lower=True, unit_diagonal=True)
        return solve(factors, half, left_side=True, lower=False)
    turned = {"left_side": True, "transpose_a": True, "conjugate_a": True}
    half = solve(factors, right, lower=False, **turned)
    solution = solve(factors, half, lower=True, unit_diagonal=True, **turned)
    back = jnp.argsort(indices, axis=-1)
    return jnp.take_along_axis(solution, jnp.expand_dims(back, -1), -2)


# With information about success -----------------------------------------------------------------------------


def _inv_ex(self: Any, *, check_errors: bool = False) -> tuple[Any, Any]:  # noqa: ARG001  checked around the call
    check_matrix(self)
    return jnp.linalg.inv(self), find_zero(lax.linalg.lu(lax.stop_gradient(self))[0])


# Reflections and powers -------------------------------------------------------------------------------------


def _householder_product(self: Any, tau: Any) -> Any:
    check_matrix(self, is_square=False)
    check_dtypes(self, tau)
    rows, columns = self.shape[-2:]
    if rows < columns or tau.shape[:-1] != self.shape[:-2] or tau.shape[-1] > columns:
        raise ArgumentError(
            "the matrix must have as many rows as columns at least, and tau one number for each of its "
            "first columns",
            "Pass reflections in LAPACK's form.",
        )
    product = jnp.broadcast_to(jnp.eye(rows, columns, dtype=self.dtype), self.shape)
    below = jnp.tril(self, -1) + product  # the reflections, whose first item is 1

    def reflect(product: Any, column: Any) -> Any:
        vector, scale = lax.expand_dims(column[0], (self.ndim - 1,)), column[1][..., None, None]
        return product - scale * jnp.matmul(vector, jnp.matmul(_turn(vector), product)), None

    columns = jnp.moveaxis(below[..., : tau.shape[-1]], -1, 0), jnp.moveaxis(tau, -1, 0)
    start = match_varying([product, *columns])[0]
    return lax.scan(reflect, start, columns, reverse=True)[0] if tau.size else start


def _vander(x: Any, *, N: int | None = None) -> Any:
    x = x if x.ndim else lax.expand_dims(x, (0,))
    count = x.shape[-1] if N is None else N
    if count < 2:
        raise ArgumentError("N must be greater than 1", "Ask for 2 at least.")
    dtype = default_int_dtype() if is_integral(x.dtype) else x.dtype
    column = lax.expand_dims(lax.convert_element_type(x, dtype), (x.ndim,))
    factors = jnp.broadcast_to(column, (*x.shape, count - 1))
    return jnp.concatenate([jnp.ones_like(column), jnp.cumprod(factors, -1)], -1)


ROWS = (
    LinalgRow(
        "linalg_lu_factor(Tensor self, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
        _lu_factor,
        "L and U in one matrix, and the pivots of the row exchanges, counted from 1",
    ),
    LinalgRow(
        "linalg_lu_factor_ex(Tensor self, *, bool pivot=True, bool check_errors=False) -> "
        "(Tensor LU, Tensor pivots, Tensor info)",
        _lu_factor_ex,
        "as linalg_lu_factor, with the position of the first 0 on the diagonal of U, counted from 1",
    ),
    Row(
        "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> "
        "(Tensor P, Tensor L, Tensor U)",
        _lu_unpack,
        "the matrices P, L and U of the result of linalg.lu_factor",
        dtypes="fc",
    ),
    LinalgRow(
        "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> "
        "Tensor",
        _lu_solve,
        "solution of A @ x = B by the factors of A; or of x @ A = B, or with A.mH instead of A",
    ),
    DecompositionRow(
        "linalg_inv_ex(Tensor self, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
        _inv_ex,
        "inverse matrix, and the position of the first 0 on the diagonal of U, counted from 1",
    ),
    DecompositionRow(
        "linalg_householder_product(Tensor self, Tensor tau) -> Tensor",
        _householder_product,
        "the first columns of a product of reflections",
        aliases=("orgqr",),
    ),
    LinalgRow(
        "linalg_vander(Tensor x, *, int? N=None) -> Tensor",
        _vander,
        "powers of each number, from power 0 on, along a new last dim",
        dtypes="ifc",
    ),
)
