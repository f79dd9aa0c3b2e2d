"""Decompositions of matrices, and functions computed by them; the names of ``oplib.linalg``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import DecompositionRow, LinalgRow, Row
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.dtype_classes import classify
from oplib.builtin.shared_kernels.promotion import (
    broadcast_batches,
    check_dtypes,
    find_largest,
    find_smallest,
    in_single,
)
from oplib.builtin.tables.reductions.moments import compute_norm
from oplib.errors import ArgumentError, DimensionError
from oplib.importing import LateImports


def check_matrix(matrix: Any, *, is_square: bool = True) -> None:
    """Raises unless an argument is a matrix, or a batch of them."""
    if matrix.ndim < 2 or (is_square and matrix.shape[-1] != matrix.shape[-2]):
        kind = "square matrices" if is_square else "matrices"
        raise ArgumentError(
            f"the tensor must be batches of {kind}, with at least 2 dimensions", "Reshape it."
        )


def check_system(matrix: Any, B: Any, *, left: bool = True) -> None:
    """Raises unless the first operand is square and the second has its right-hand sides, in one dtype."""
    check_matrix(matrix)
    check_dtypes(matrix, B)
    if B.ndim < 2 or B.shape[-2 if left else -1] != matrix.shape[-1]:
        raise ArgumentError(
            f"incompatible shapes for {'AX = B' if left else 'XA = B'}, or B has fewer than 2 dimensions",
            "Transpose one, or add unsqueeze(-1).",
        )


def _of_square(function: Any) -> Any:
    def kernel(self: Any) -> Any:
        check_matrix(self)
        return function(self)

    return kernel


# Systems of equations ---------------------------------------------------------------------------------------


def solve(self: Any, other: Any, *, left: bool = True) -> Any:
    """Solves ``self @ x = other``, or ``x @ self = other``; a singular matrix gives inf and NaN."""
    check_matrix(self)
    check_dtypes(self, other)
    # by torch's rule the right side is a batch of vectors then
    is_vector = other.ndim == 1 or (self.ndim - 1 == other.ndim and other.shape == self.shape[:-1])
    right = jnp.expand_dims(other, -1) if is_vector else other
    if (is_vector and not left) or right.shape[-2 if left else -1] != self.shape[-1]:
        raise ArgumentError(
            f"the right side has another number of {'rows' if left else 'columns'}, or is a vector on "
            "the left",
            "Transpose one of them.",
        )
    if not left:
        return solve(self.mT, other.mT).mT
    solution = jnp.linalg.solve(*broadcast_batches(self, right))
    return lax.squeeze(solution, (solution.ndim - 1,)) if is_vector else solution


def _solve_triangular(
    self: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    check_system(self, B, left=left)
    matrix, right = broadcast_batches(self, B)
    return lax.linalg.triangular_solve(
        matrix, right, left_side=left, lower=not upper, unit_diagonal=unitriangular
    )


SYSTEMS = (
    DecompositionRow(
        "linalg_inv(Tensor self) -> Tensor",
        _of_square(jnp.linalg.inv),
        "inverse matrix",
        aliases=("inverse",),
    ),
    DecompositionRow(
        "linalg_solve(Tensor self, Tensor other, *, bool left=True) -> Tensor",
        solve,
        "solution of self @ x = other, or of x @ self = other",
    ),
    LinalgRow(
        "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, "
        "bool unitriangular=False) -> Tensor",
        _solve_triangular,
        "solution of self @ x = B, where self is triangular",
    ),
)

# Determinants and powers ------------------------------------------------------------------------------------


def _det(self: Any) -> Any:
    if not self.shape[-1]:  # jnp's derivative needs a first pivot
        return jnp.ones(self.shape[:-2], self.dtype)
    return jnp.linalg.det(self)


def _slogdet(self: Any) -> tuple[Any, Any]:
    check_matrix(self)
    sign, size = jnp.linalg.slogdet(self)
    return sign, size


def _logdet(self: Any) -> Any:
    sign, size = _slogdet(self)
    if self.dtype.kind == "c":
        return lax.log(sign) + lax.convert_element_type(size, self.dtype)
    return jnp.where(sign < 0, jnp.nan, size)


_scipy = LateImports("jax.scipy", {"expm": "linalg"})  # its import takes half the time of importing oplib


def _expm(matrix: Any) -> Any:
    if not matrix.shape[-1]:
        return matrix
    return in_single(lambda array: _scipy["expm"](array, max_squarings=20))(matrix)


def _matrix_power(self: Any, n: int) -> Any:
    check_matrix(self)
    if n < 0 and classify(self.dtype) not in "fc":
        raise ArgumentError(
            "a negative power needs an inverse, and so float32 or more", "Convert it: tensor.float()."
        )
    return jnp.linalg.matrix_power(self, n)


DETERMINANTS = (
    LinalgRow("linalg_det(Tensor self) -> Tensor", _of_square(_det), "determinant", aliases=("det",)),
    LinalgRow(
        "linalg_slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
        _slogdet,
        "sign of the determinant, and the logarithm of its absolute value",
        aliases=("slogdet",),
    ),
    Row(
        "logdet(Tensor self) -> Tensor",
        _logdet,
        "logarithm of the determinant, nan for a negative determinant",
        dtypes="fc",
    ),
    LinalgRow(
        "linalg_matrix_power(Tensor self, int n) -> Tensor",
        _matrix_power,
        "self @ self @ ..., n times",
        dtypes="ihfc",
        aliases=("matrix_power",),
        autocast="low",
    ),
    LinalgRow(
        "linalg_matrix_exp(Tensor self) -> Tensor",
        _of_square(_expm),
        "matrix exponential",
        dtypes="hfc",
        aliases=("matrix_exp",),
    ),
)

# Decompositions ---------------------------------------------------------------------------------------------


def cholesky(self: Any, *, upper: bool = False) -> Any:
    """Returns the triangular factor; NaN for a matrix that is not positive definite."""
    check_matrix(self)
    lower = jnp.linalg.cholesky(self, symmetrize_input=True)
    return lower.mT.conj() if upper else lower


def _qr(self: Any, mode: str = "reduced") -> tuple[Any, Any]:
    check_matrix(self, is_square=False)
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError("expected mode to be 'reduced', 'complete' or 'r'", "Leave it out for 'reduced'.")
    if mode == "r":
        return jnp.zeros((0,), self.dtype), jnp.linalg.qr(self, mode="r")
    q, r = jnp.linalg.qr(self, mode=mode)
    return q, r


def _check_driver(driver: str | None) -> None:
    if driver is not None:
        raise ArgumentError(
            "keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend",
            "Leave it out: XLA chooses, and jax.lax.linalg.svd takes an algorithm.",
        )


def _svd(self: Any, full_matrices: bool = True, *, driver: str | None = None) -> tuple[Any, Any, Any]:
    """Returns U, S and Vh. The completing vectors have no gradient; JAX's full decomposition has none."""
    check_matrix(self, is_square=False)
    _check_driver(driver)
    u, s, vh = jnp.linalg.svd(self, full_matrices=False)
    if not full_matrices or self.shape[-1] == self.shape[-2]:
        return u, s, vh
    whole_u, _, whole_vh = jnp.linalg.svd(lax.stop_gradient(self), full_matrices=True)
    count = s.shape[-1]
    return (
        jnp.concatenate([u, whole_u[..., count:]], -1),
        s,
        jnp.concatenate([vh, whole_vh[..., count:, :]], -2),
    )


def _svdvals(self: Any, *, driver: str | None = None) -> Any:
    check_matrix(self, is_square=False)
    _check_driver(driver)
    return jnp.linalg.svd(self, full_matrices=False, compute_uv=False)


def _eigh(self: Any, UPLO: str = "L") -> tuple[Any, Any]:
    """Returns what one triangle defines; the gradient has both, as that of a Hermitian matrix."""
    check_matrix(self)
    if UPLO not in ("L", "U", "l", "u"):
        raise ArgumentError("expected UPLO argument to be 'L' or 'U'", "Leave it out for 'L'.")
    return tuple(jnp.linalg.eigh(reflect_triangle(self, UPLO), symmetrize_input=False))


def reflect_triangle(matrix: Any, UPLO: str) -> Any:
    """Returns the Hermitian matrix of one triangle; the gradient has both, as that of such a matrix."""
    fixed, even = lax.stop_gradient(matrix), matrix * 0.5 + matrix.mT.conj() * 0.5
    mean = lax.stop_gradient(even)  # its diagonal is real
    triangle = jnp.tril(fixed, -1) if UPLO in "Ll" else jnp.triu(fixed, 1)
    is_diagonal = jnp.eye(matrix.shape[-1], dtype=bool)
    return jnp.where(is_diagonal, mean, triangle + triangle.mT.conj()) + (even - mean)


def _eigvalsh(self: Any, UPLO: str = "L") -> Any:
    return _eigh(self, UPLO)[0]


def _eig(self: Any) -> tuple[Any, Any]:
    """Returns vectors of length 1; their phase is arbitrary, and so is its part of the gradient."""
    check_matrix(self)
    if not self.size:  # JAX would search the largest item of each vector
        vectors = lax.convert_element_type(self, jnp.result_type(self.dtype, jnp.complex64))
        return jnp.sum(vectors, -1), vectors
    values, vectors = lax.linalg.eig(self, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
    return values, vectors


def _eigvals(self: Any) -> Any:
    check_matrix(self)
    return _eig(self)[0]  # unlike JAX's eigvals, this has second derivatives


DECOMPOSITIONS = (
    DecompositionRow(
        "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
        cholesky,
        "triangular L with L @ L.mH == self, for a Hermitian self",
        aliases=("cholesky",),
    ),
    DecompositionRow(
        "linalg_qr(Tensor self, str mode='reduced') -> (Tensor Q, Tensor R)",
        _qr,
        "orthonormal Q and triangular R with Q @ R == self",
    ),
    DecompositionRow(
        "linalg_svd(Tensor self, bool full_matrices=True, *, str? driver=None) -> "
        "(Tensor U, Tensor S, Tensor Vh)",
        _svd,
        "U, S and Vh with U @ diag(S) @ Vh == self; further columns of full matrices have no gradient",
    ),
    DecompositionRow(
        "linalg_svdvals(Tensor self, *, str? driver=None) -> Tensor",
        _svdvals,
        "singular values, the largest first",
    ),
    DecompositionRow(
        "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
        _eig,
        "complex eigenvalues and eigenvectors of a square matrix; on CPUs only",
    ),
    DecompositionRow(
        "linalg_eigvals(Tensor self) -> Tensor",
        _eigvals,
        "complex eigenvalues of a square matrix; on CPUs only",
    ),
    DecompositionRow(
        "linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
        _eigh,
        "eigenvalues and eigenvectors of a Hermitian matrix",
    ),
    DecompositionRow(
        "linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor",
        _eigvalsh,
        "eigenvalues of a Hermitian matrix",
    ),
)

# Norms ------------------------------------------------------------------------------------------------------


def _matrix_norm(self: Any, ord: float | str, dim: Sequence[int], keepdim: bool, *, dtype: Any = None) -> Any:
    check_matrix(self, is_square=False)
    array = self if dtype is None else lax.convert_element_type(self, dtype)
    axes = [find_dim(array.ndim, number) for number in dim]
    if len(set(axes)) != 2 or len(axes) != 2:
        raise ArgumentError("dim must be a 2-tuple", "Name two different ones.")
    rows, columns = axes
    matrix = jnp.moveaxis(array, (rows, columns), (-2, -1))
    axes = _norm_of_matrix(matrix, ord)
    return lax.expand_dims(axes, sorted((rows, columns))) if keepdim else axes


def _norm_of_matrix(matrix: Any, order: float | str) -> Any:
    last = (matrix.ndim - 2, matrix.ndim - 1)
    if order == "fro":
        return compute_norm(matrix, 2, last, keepdim=False)
    if order in ("nuc", 2, -2):
        if classify(matrix.dtype) == "h":
            raise ArgumentError(
                f"order {order!r} needs singular values, and so float32 or more",
                "Convert it: tensor.float().",
            )
        values = _svdvals(matrix)
        if order == "nuc" or not values.shape[-1]:
            return _sum_or_refuse(values, order)
        # Equal values share the gradient, as of a maximum.
        return find_largest(values, -1) if order == 2 else find_smallest(values, -1)
    if order in (1, -1, math.inf, -math.inf):
        axis = last[0] if abs(order) == 1 else last[1]
        sums = compute_norm(matrix, 1, (axis,), keepdim=False)
        if not sums.shape[-1]:
            return _sum_or_refuse(sums, order)
        return find_largest(sums, -1) if order > 0 else find_smallest(sums, -1)
    raise ArgumentError(
        "this order is not supported", "Choose one of 'fro', 'nuc', inf, -inf, 1, -1, 2 and -2."
    )


def _sum_or_refuse(values: Any, order: float | str) -> Any:
    """Returns the sum, which is also the largest of no values; there is no smallest."""
    if not isinstance(order, str) and order < 0:
        raise DimensionError(f"expected a matrix with items for order {order}", "Choose a positive order.")
    return jnp.sum(values, -1)


NORMS = (
    LinalgRow(
        "linalg_matrix_norm(Tensor self, Scalar ord=2, int[] dim=[-2, -1], bool keepdim=False, *, "
        "ScalarType? dtype=None) -> Tensor",
        _matrix_norm,
        "norm of a matrix, of a numeric order",
        dtypes="hfc",
        autocast="cuda float32",
    ),
    Row(
        "linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], bool keepdim=False, *, "
        "ScalarType? dtype=None) -> Tensor",
        _matrix_norm,
        "norm of a matrix, of a named order",
        dtypes="hfc",
        autocast="cuda float32",
    ),
)

ROWS = (*SYSTEMS, *DETERMINANTS, *DECOMPOSITIONS, *NORMS)
