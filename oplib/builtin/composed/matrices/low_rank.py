"""Decompositions of matrices of low rank, by products with random vectors."""

from __future__ import annotations

from typing import Any

from oplib.builtin.composed.shapes import adjoint
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentValueError
from oplib.tensor import Generator, Tensor, randn


def svd_lowrank(
    A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None, *, generator: Generator | None = None
) -> Any:
    """Approximates the singular value decomposition of matrices whose rank is low.

    Args:
        A: ``[..., m, n]``, floating or complex.
        q: the number of singular values; a little above the rank.
        niter: the number of iterations, 0 or more.
        M: is subtracted from the matrices; broadcasts to their shape.

    Returns:
        A tuple ``(U, S, V)``, ``[..., m, q]``, ``[..., q]`` and ``[..., n, q]``.

    Raises:
        ArgumentValueError: the tensor has fewer than two dims, or a count is negative.

    Gradient:
        The gradient of the products and of ``linalg.svd``.

    Source:
        torch.svd_lowrank; Halko et al., "Finding structure with randomness", 2009, algorithm 5.1.

    Example:
        >>> _, values, _ = oplib.svd_lowrank(oplib.eye(3), 3)
        >>> values.round(decimals=3)
        tensor([1., 1., 1.])
    """
    count, steps = 6 if q is None else q, 2 if niter is None else niter
    if A.ndim < 2 or count < 0 or steps < 0:
        raise ArgumentValueError(
            "expected matrices, and that q and niter are not negative", "Give a count of singular values."
        )
    rows, columns = A.shape[-2:]
    matrix = A if M is None else ops.sub(A, M)
    is_wide = rows < columns
    turned = adjoint(matrix) if is_wide else matrix
    basis = _find_basis(turned, count, steps, generator)
    left, values, right = ops.linalg_svd(ops.matmul(adjoint(basis), turned), False)
    left, right = ops.matmul(basis, left), adjoint(right)
    return (right, values, left) if is_wide else (left, values, right)


def _find_basis(matrix: Any, count: int, steps: int, generator: Generator | None) -> Any:
    """Returns columns that approximate the range of a matrix."""
    start = randn(matrix.shape[-1], count, dtype=matrix.dtype, generator=generator)
    held = start if isinstance(matrix, Tensor) else start.array
    basis = ops.linalg_qr(ops.matmul(matrix, held))[0]
    for _ in range(steps):
        basis = ops.linalg_qr(ops.matmul(adjoint(matrix), basis))[0]
        basis = ops.linalg_qr(ops.matmul(matrix, basis))[0]
    return basis


def pca_lowrank(
    A: Any, q: int | None = None, center: bool = True, niter: int = 2, *, generator: Generator | None = None
) -> Any:
    """Approximates the principal components of samples.

    Args:
        A: ``[..., samples, features]``, floating.
        q: the number of components; by default 6, or the smaller size.
        center: whether the mean of each feature is subtracted.
        niter: the number of iterations, 0 or more.

    Returns:
        A tuple ``(U, S, V)``; the columns of V, ``[..., features, q]``, are the directions.

    Raises:
        ArgumentValueError: q is not between 0 and the smaller size, or the count of iterations is negative.

    Gradient:
        The gradient of ``svd_lowrank``.

    Example:
        >>> _, values, _ = oplib.pca_lowrank(oplib.tensor([[1.0, 2.0], [3.0, 2.0]]), 1)
        >>> values
        tensor([1.4142])
    """
    least = min(A.shape[-2:]) if A.ndim > 1 else 0
    count = min(6, least) if q is None else q
    if A.ndim < 2 or not 0 <= count <= least or niter < 0:
        raise ArgumentValueError(
            "expected matrices; q must be non-negative and not greater than min(m, n), niter not negative",
            "Give a smaller q.",
        )
    mean = ops.mean(A, [-2], True) if center else None
    return svd_lowrank(A, count, niter, mean, generator=generator)


COMPOSED = (
    Composed(pca_lowrank, returns="(Tensor U, Tensor S, Tensor V)"),
    Composed(svd_lowrank, returns="(Tensor U, Tensor S, Tensor V)"),
)
