"""The functions of ``oplib.linalg`` that are made of several ops."""

from __future__ import annotations

import math
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.tables.matrices.pseudoinverse import find_tolerance
from oplib.errors import ArgumentError, AutogradError
from oplib.modes import modes

from .least_squares import linalg_lstsq

# Norms and ranks --------------------------------------------------------------------------------------------


def linalg_norm(
    input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Computes the norm of vectors or matrices; of all items if neither order nor dims are given.

    Args:
        input: a floating or complex tensor of any shape.
        ord: a number, or for matrices "fro" or "nuc"; by default the Euclidean norm.
        dim: one dim for vectors, two dims for matrices; by default all dims, at most two with an order.
        dtype: the dtype of the computation; by default that of the input.

    Returns:
        A real tensor without these dims.

    Raises:
        ArgumentError: a matrix order with other than two dims, or an order that is not supported.

    Gradient:
        The gradient of ``linalg.vector_norm``, or of ``linalg.matrix_norm``.

    Example:
        >>> oplib.linalg.norm(oplib.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor(5.)
    """
    if ord is not None and dim is None and input.ndim not in (1, 2):
        raise ArgumentError("if dim is not specified but ord is, the input must be 1D or 2D", "Give dim.")
    count = input.ndim if dim is None else 1 if isinstance(dim, int) else len(dim)
    if isinstance(ord, str) or (ord is not None and count == 2):
        if count != 2:
            raise ArgumentError("dim must be a 2-tuple", "Name two dims, or give a number as order.")
        dims: Any = [-2, -1] if dim is None else dim
        return ops.linalg_matrix_norm(input, ord, list(dims), keepdim, dtype=dtype)
    return ops.linalg_vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def linalg_matrix_rank(
    input: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Any:
    """Counts the singular values above ``max(atol, rtol * largest)``.

    Args:
        input: ``[..., m, n]``, floating or complex.
        tol: the absolute bound, as a number or tensor, instead of the two below.
        hermitian: whether the matrices are Hermitian, so that their eigenvalues can be used.
        atol: the absolute bound: a number, or a tensor with one per matrix; by default 0.
        rtol: the relative bound, in the same forms; by default ``max(m, n)`` times the precision, or 0 where
            atol is above 0.

    Returns:
        A tensor of ints, ``[...]``.

    Raises:
        ArgumentError: the input has fewer than two axes.
        UnsupportedDtypeError: the dtype has no decompositions.

    Gradient:
        None: the result is a count.

    Example:
        >>> oplib.linalg.matrix_rank(oplib.tensor([[1.0, 0.0], [0.0, 0.0]]))
        tensor(1)
    """
    values = abs(ops.linalg_eigvalsh(input)) if hermitian else ops.linalg_svdvals(input)
    least = _spread((0.0 if atol is None else atol) if tol is None else tol)
    if tol is None and values.shape[-1]:  # an empty matrix has no largest value
        ratio = (least <= 0) * find_tolerance(input) if rtol is None else _spread(rtol)
        return (values > ops.clamp_min(ops.amax(values, -1, True) * ratio, least)).sum(-1)
    return (values > least).sum(-1)


def _spread(bound: Any) -> Any:
    """Gives a bound per matrix an axis for the values of its matrix."""
    return ops.unsqueeze(bound, -1) if getattr(bound, "ndim", 0) else bound


def linalg_cond(input: Any, p: Any = None) -> Any:
    """Computes the condition number: the norm of a matrix times the norm of its inverse.

    Args:
        input: ``[..., m, n]``, floating or complex; square unless ``p`` is None, 2 or -2.
        p: the order of the norm, as for ``linalg.matrix_norm``; None means 2.

    Returns:
        A real tensor, ``[...]``; ``inf`` for a matrix without an inverse.

    Raises:
        ArgumentError: the input has fewer than two axes, is not square, or the order is not supported.

    Gradient:
        The gradient of the singular values, or of the norms and the inverse.

    Example:
        >>> oplib.linalg.cond(oplib.tensor([[0.0, 2.0], [8.0, 0.0]]))
        tensor(4.)
    """
    if 0 in input.shape[-2:] and (p not in ("fro", "nuc") or input.shape[-1] == input.shape[-2]):
        return ops.linalg_svdvals(input).sum(-1)  # an empty matrix has the condition number 0
    if p in (None, 2, -2):
        values = ops.linalg_svdvals(input)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    inverse, info = ops.linalg_inv_ex(input)
    size = ops.linalg_matrix_norm(input, p) * ops.linalg_matrix_norm(inverse, p)
    return ops.masked_fill(size, info > 0, math.inf)


def linalg_pinv(
    input: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Any:
    """Computes the pseudoinverse of matrices.

    Args:
        input: ``[..., m, n]``, floating or complex.
        rcond: singular values below this times the largest count as 0: a number, or a tensor with one per
            matrix, ``[...]``; the default depends on the precision.
        atol: singular values below this count as 0 too; in the same forms.
        rtol: a newer name of ``rcond``, which has priority; by default 0 if ``atol`` is above 0.

    Returns:
        A tensor, ``[..., n, m]``.

    Raises:
        ArgumentError: the input has fewer than two axes, or a bound is complex.
        UnsupportedDtypeError: the dtype has no decompositions.
        AutogradError: a bound requires grad.

    Gradient:
        The gradient of the op ``linalg_pinv``. Bounds have none.

    Example:
        >>> oplib.linalg.pinv(oplib.tensor([[2.0, 0.0], [0.0, 0.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    rtol = rcond if rtol is None else rtol
    if all(tolerance is None or isinstance(tolerance, (int, float)) for tolerance in (atol, rtol)):
        return ops.linalg_pinv(input, atol=atol, rtol=rtol, hermitian=hermitian)
    for name, bound in (("atol", atol), ("rtol", rtol)):
        if modes.grad_enabled and getattr(bound, "requires_grad", False):
            raise AutogradError(
                f"linalg.pinv: {name} has no gradient. Got a tensor that requires grad. Give its .detach()."
            )
    return ops.linalg_pinv_bounded(input, atol, rtol, hermitian=hermitian)


# Diagonals and products -------------------------------------------------------------------------------------


def linalg_diagonal(input: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Returns the diagonals of matrices, as a view.

    Args:
        input: a tensor with at least two dims.
        dim1: the dim of the rows.
        dim2: the dim of the columns.

    Returns:
        A view without these dims, and with the diagonal as its last dim.

    Raises:
        DimensionError: the dim does not exist.
        ArgumentError: both dims are equal.

    Gradient:
        The gradient of ``diagonal``.

    Example:
        >>> oplib.linalg.diagonal(oplib.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    return ops.diagonal(input, offset, dim1, dim2)


def linalg_vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Sums products of items along a dim; the first vector is conjugated.

    Args:
        x: a tensor of any shape.
        y: a tensor whose shape broadcasts with x.
        dim: the dim of the vectors.

    Returns:
        A tensor without this dim.

    Raises:
        ArgumentError: the shapes do not broadcast.

    Gradient:
        The gradient of the product and the sum.

    Example:
        >>> oplib.linalg.vecdot(oplib.tensor([1.0, 2.0]), oplib.tensor([3.0, 4.0]))
        tensor(11.)
    """
    return ops.sum(ops.mul(ops.conj(x), y), dim)


COMPOSED = (
    Composed(linalg_pinv),
    Composed(linalg_cond),
    Composed(linalg_diagonal),
    Composed(
        linalg_lstsq,
        aliases=("lstsq",),
        returns="(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    ),
    Composed(linalg_matrix_rank),
    Composed(linalg_norm),
    Composed(linalg_vecdot),
)
