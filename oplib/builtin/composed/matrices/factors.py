"""Equations solved by given factors, and tensor equations that are solved as matrix equations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.builtin.composed.shapes import adjoint
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import read_known
from oplib.errors import ArgumentError, LinAlgError


def _check_factor(factor: Any) -> None:
    if factor.ndim < 2 or factor.shape[-1] != factor.shape[-2]:
        raise ArgumentError(
            "the factor must have at least 2 dimensions, and be square", "Give what linalg.cholesky gives."
        )


def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:
    """Solves A @ x = input by the Cholesky factor of A.

    Args:
        input: ``[..., n, k]``, real or complex.
        L: ``[..., n, n]``, triangular: A is L @ L.mH, or L.mH @ L if ``upper``.
        upper: whether L is upper triangular.

    Returns:
        ``[..., n, k]``.

    Raises:
        ArgumentError: the shapes or dtypes do not fit.
        UnsupportedDtypeError: the dtype is integral or half precision.

    Gradient:
        With respect to both.

    Example:
        >>> factor = oplib.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> oplib.cholesky_solve(oplib.ones(2, 1), factor)
        tensor([[0.2500],
                [1.0000]])
    """
    _check_factor(L)
    if input.ndim < 2 or input.shape[-2] != L.shape[-1]:
        raise ArgumentError(
            "b should have at least 2 dimensions, and as many rows as the factor",
            "Add one with unsqueeze(-1).",
        )
    lower, higher = (adjoint(L), L) if upper else (L, adjoint(L))
    half = ops.linalg_solve_triangular(lower, input, upper=False)
    return ops.linalg_solve_triangular(higher, half, upper=True)


def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """Computes the inverse of a matrix from its Cholesky factor.

    Args:
        L: ``[..., n, n]``, triangular, real or complex.
        upper: whether L is upper triangular.

    Returns:
        ``[..., n, n]``, the inverse of L @ L.mH, or of L.mH @ L if ``upper``.

    Raises:
        ArgumentError: the factor is no square matrix.
        LinAlgError: a known diagonal item is 0.
        UnsupportedDtypeError: the dtype is integral or half precision.

    Gradient:
        With respect to the factor.

    Example:
        >>> oplib.cholesky_inverse(oplib.tensor([[2.0, 0.0], [0.0, 1.0]]))
        tensor([[0.2500, 0.0000],
                [0.0000, 1.0000]])
    """
    _check_factor(L)
    parts = read_known(ops.detach(ops.diagonal(L, 0, -2, -1)))
    if parts is not None and not np.all(parts):
        raise LinAlgError(
            "a diagonal element is zero; the inversion could not be completed",
            "Give a factor of a positive definite matrix.",
        )
    zeros = ops.zeros_like(ops.detach(L))
    ones = ops.zeros_like(ops.diagonal(zeros, 0, -2, -1)) + 1
    eye = ops.diagonal_scatter(zeros, ones, 0, -2, -1)
    return cholesky_solve(eye, L, upper)


def linalg_tensorinv(input: Any, ind: int = 2) -> Any:
    """Inverts a tensor as a matrix, whose rows are its first axes and whose columns are its other axes.

    Args:
        input: a real or complex tensor; the product of its first ``ind`` sizes equals that of the others.
        ind: the number of axes that are rows.

    Returns:
        The inverse, with the other axes before the first axes.

    Raises:
        ArgumentError: the sizes do not fit, or ``ind`` is not positive.
        LinAlgError: a known tensor has no inverse.

    Gradient:
        The gradient of the inverse.

    Example:
        >>> oplib.linalg.tensorinv(oplib.eye(4).reshape(2, 2, 4) * 2, ind=2).shape
        (4, 2, 2)
    """
    if ind < 1:
        raise ArgumentError("expected a strictly positive integer for 'ind'", "Count axes.")
    rows, columns = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    count = math.prod(rows)
    if count != math.prod(columns):
        raise ArgumentError(
            "expected the sizes before and after 'ind' to have one product", "Choose another."
        )
    return ops.reshape(ops.linalg_inv(ops.reshape(input, (count, count))), (*columns, *rows))


def linalg_tensorsolve(input: Any, other: Any, dims: Sequence[int] | None = None) -> Any:
    """Solves for the tensor whose product with ``input``, over all its axes, is ``other``.

    Args:
        input: a real or complex tensor. The product of its first sizes, as many as ``other`` has, equals that
            of its other sizes.
        other: the right-hand side.
        dims: the axes of ``input`` to move to the end first.

    Returns:
        The solution, with the sizes of the last axes of ``input``.

    Raises:
        ArgumentError: the sizes do not fit.
        LinAlgError: known tensors have no unique solution.

    Gradient:
        The gradient of the solution, with respect to both.

    Example:
        >>> oplib.linalg.tensorsolve(oplib.eye(4).reshape(2, 2, 4) * 2, oplib.ones(2, 2))
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    moved = input if dims is None else ops.movedim(input, tuple(dims), tuple(range(-len(dims), 0)))
    sizes = tuple(moved.shape[other.ndim :])
    count = math.prod(sizes)
    if count != math.prod(moved.shape[: other.ndim]) or count != math.prod(other.shape):
        raise ArgumentError(
            "expected the last sizes of the tensor to have the product of the first, and as the right-hand "
            "side",
            "Give dims.",
        )
    matrix, vector = ops.reshape(moved, (count, count)), ops.reshape(other, (count,))
    return ops.reshape(ops.linalg_solve(matrix, vector), sizes)


COMPOSED = (
    Composed(cholesky_inverse, is_method=True, out=True),
    Composed(cholesky_solve, is_method=True, out=True),
    Composed(linalg_tensorinv),
    Composed(linalg_tensorsolve),
)
