"""Decompositions under older names of torch, with their arguments and results."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from oplib.builtin.composed.shapes import adjoint
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import make_zeros
from oplib.errors import ArgumentError

QR = namedtuple("QR", ("Q", "R"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]  a type of fields would say no more
SVD = namedtuple("SVD", ("U", "S", "V"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]
Triangular = namedtuple("Triangular", ("solution", "cloned_coefficient"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]


def qr(input: Any, some: bool = True) -> Any:
    """Computes orthonormal Q and triangular R with ``Q @ R == input``; ``linalg.qr`` names the mode.

    Args:
        input: ``[..., m, n]``, floating or complex.
        some: True for ``min(m, n)`` columns of Q, False for a square Q.

    Returns:
        A named tuple ``(Q, R)``.

    Raises:
        ArgumentError: the input has fewer than two axes.
        UnsupportedDtypeError: the dtype has no decompositions.

    Gradient:
        The gradient of ``linalg.qr``.

    Example:
        >>> q, r = oplib.qr(oplib.tensor([[0.0, 2.0], [3.0, 0.0]]))
        >>> (q @ r).round()
        tensor([[0., 2.],
                [3., 0.]])
    """
    return QR(*ops.linalg_qr(input, "reduced" if some else "complete"))


def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """Computes U, S and V with ``U @ diag(S) @ V.mH == input``; ``linalg.svd`` returns ``V.mH`` instead.

    Args:
        input: ``[..., m, n]``, floating or complex.
        some: True for ``min(m, n)`` columns of U and V, False for square ones.
        compute_uv: False returns square matrices of zeros for U and V.

    Returns:
        A named tuple ``(U, S, V)``; S is real, the largest value first.

    Raises:
        ArgumentError: the input has fewer than two axes.
        UnsupportedDtypeError: the dtype has no decompositions.

    Gradient:
        The gradient of ``linalg.svd``, or of ``linalg.svdvals``.

    Example:
        >>> oplib.svd(oplib.tensor([[0.0, 2.0], [3.0, 0.0]])).S
        tensor([3., 2.])
    """
    if compute_uv:
        u, s, vh = ops.linalg_svd(input, not some)
        return SVD(u, s, adjoint(vh))
    lead, rows, columns = tuple(input.shape[:-2]), *input.shape[-2:]
    zeros = [make_zeros(input, (*lead, size, size)) for size in (rows, columns)]
    return SVD(zeros[0], ops.linalg_svdvals(input), zeros[1])


def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """Solves ``A @ x = input``, or ``A.T @ x = input``, for a triangular A.

    Args:
        input: ``[..., m, k]``, floating or complex.
        A: ``[..., m, m]``, of the same dtype.
        upper: whether A is upper triangular; the other triangle is not read.
        transpose: whether A.T is used instead of A.

    Returns:
        A named tuple ``(solution, cloned_coefficient)``; the second is a copy of A.

    Raises:
        ArgumentError: a tensor has fewer than two axes, or the shapes do not fit.

    Gradient:
        The gradient of ``linalg.solve_triangular``.

    Example:
        >>> right = oplib.tensor([[4.0], [2.0]])
        >>> oplib.triangular_solve(right, oplib.tensor([[1.0, 1.0], [0.0, 2.0]])).solution
        tensor([[3.],
                [1.]])
    """
    if input.ndim < 2 or A.ndim < 2:
        raise ArgumentError(
            "expected both tensors to have at least 2 dimensions", "Add one with unsqueeze(-1)."
        )
    matrix, is_upper = (ops.transpose(A, -2, -1), not upper) if transpose else (A, upper)
    solution = ops.linalg_solve_triangular(matrix, input, upper=is_upper, unitriangular=unitriangular)
    return Triangular(solution, ops.clone(A))


COMPOSED = (
    Composed(qr, is_method=True, returns="(Tensor Q, Tensor R)"),
    Composed(svd, is_method=True, returns="(Tensor U, Tensor S, Tensor V)"),
    Composed(triangular_solve, is_method=True, returns="(Tensor solution, Tensor cloned_coefficient)"),
)
