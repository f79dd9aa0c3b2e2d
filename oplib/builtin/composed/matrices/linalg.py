# ruff: noqa: A002  the parameters are torch's
"""Linear algebra that is made of several ops: what ``oplib.linalg`` has beside the decompositions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, describe

from .least_squares import find_tolerance, linalg_lstsq

# Norms and ranks --------------------------------------------------------------------------------------------


def linalg_norm(
    input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Computes the norm of vectors or matrices: of all items where neither order nor dims are given.

    Args:
        input: of any shape, floating or complex.
        ord: a number, or for matrices "fro" or "nuc"; by default the Euclidean norm.
        dim: one dim, of vectors, or two, of matrices; by default all, at most two with an order.
        keepdim: whether these dims stay, with size 1.
        dtype: in which to compute; by default that of the input.

    Returns:
        A real tensor without these dims.

    Raises:
        ArgumentError: an order of matrices for other than two dims, or one that is not supported.
        DimensionError: there is no such dim.

    Gradient:
        That of ``linalg.vector_norm``, or of ``linalg.matrix_norm``.

    Source:
        torch.linalg.norm

    Example:
        >>> import oplib
        >>> oplib.linalg.norm(oplib.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor(5.)
    """
    if ord is not None and dim is None and input.ndim > 2:
        raise ArgumentError(
            "linalg.norm: if dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{describe(input)}. Give dim."
        )
    count = input.ndim if dim is None else 1 if isinstance(dim, int) else len(dim)
    if isinstance(ord, str) or (ord is not None and count == 2):
        if count != 2:
            raise ArgumentError(
                f"linalg.matrix_norm: dim must be a 2-tuple. Got dim={dim} for {describe(input)}. Name "
                "two dims, or give a number as order."
            )
        dims: Any = [-2, -1] if dim is None else dim
        return ops.linalg_matrix_norm(input, ord, list(dims), keepdim, dtype=dtype)
    return ops.linalg_vector_norm(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def linalg_matrix_rank(
    input: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Any:
    """Counts the singular values above ``max(atol, rtol * largest)``.

    Args:
        input: ``[..., m, n]``, floating or complex.
        tol: the bound itself, in the place of the two below.
        hermitian: whether the matrices are Hermitian, so that their eigenvalues do.
        atol: a number, or a tensor with one for each matrix; by default 0.
        rtol: likewise; by default ``max(m, n)`` times the precision, or 0 where atol is given.

    Returns:
        A tensor of ints, ``[...]``.

    Raises:
        ArgumentError: the input has fewer than two axes.
        UnsupportedDtypeError: its dtype has no decompositions.

    Gradient:
        None: the result counts.

    Source:
        torch.linalg.matrix_rank

    Example:
        >>> import oplib
        >>> oplib.linalg.matrix_rank(oplib.tensor([[1.0, 0.0], [0.0, 0.0]]))
        tensor(1)
    """
    values = abs(ops.linalg_eigvalsh(input)) if hermitian else ops.linalg_svdvals(input)
    least = tol if tol is not None else (0.0 if atol is None else atol)
    if tol is None and values.shape[-1]:  # of none there is no largest, and none to count
        default = find_tolerance(input) if atol is None else 0.0
        bound = ops.amax(values, -1, True) * (default if rtol is None else rtol)
        return (values > ops.clamp_min(bound, least)).sum(-1)
    return (values > least).sum(-1)


def linalg_cond(input: Any, p: Any = None) -> Any:
    """Computes the condition number: the norm of a matrix times that of its inverse.

    Args:
        input: ``[..., m, n]``, floating or complex; square where ``p`` is neither None, 2 nor -2.
        p: the order of the norm, as for ``linalg.matrix_norm``; None is 2.

    Returns:
        A real tensor, ``[...]``.

    Raises:
        ArgumentError: the input has fewer than two axes, is not square, or the order is not supported.
        LinAlgError: a matrix that is known has no inverse, where one is needed.

    Gradient:
        That of the singular values, or of the norms and the inverse.

    Source:
        torch.linalg.cond

    Example:
        >>> import oplib
        >>> oplib.linalg.cond(oplib.tensor([[0.0, 2.0], [8.0, 0.0]]))
        tensor(4.)
    """
    if 0 in input.shape[-2:] and (p not in ("fro", "nuc") or input.shape[-1] == input.shape[-2]):
        return ops.linalg_svdvals(input).sum(-1)  # that of a matrix of nothing is 0
    if p in (None, 2, -2):
        values = ops.linalg_svdvals(input)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    return ops.linalg_matrix_norm(input, p) * ops.linalg_matrix_norm(ops.linalg_inv(input), p)


def linalg_pinv(
    input: Any,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> Any:
    """Computes the pseudoinverse of matrices.

    Args:
        input: ``[..., m, n]``, floating or complex.
        rcond: singular values below this times the largest count as 0; by default by the precision.
        hermitian: whether the matrices are Hermitian.
        atol: singular values below this count as 0 too.
        rtol: newer name of ``rcond``, which it precedes; by default 0 where ``atol`` is given.

    Returns:
        A tensor, ``[..., n, m]``.

    Raises:
        ArgumentError: the input has fewer than two axes.
        UnsupportedDtypeError: its dtype has no decompositions.

    Gradient:
        That of the op ``linalg_pinv``.

    Source:
        torch.linalg.pinv

    Example:
        >>> import oplib
        >>> oplib.linalg.pinv(oplib.tensor([[2.0, 0.0], [0.0, 0.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    return ops.linalg_pinv(input, atol=atol, rtol=rcond if rtol is None else rtol, hermitian=hermitian)


# Diagonals and products -------------------------------------------------------------------------------------


def linalg_diagonal(input: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Returns the diagonals of matrices; a view.

    Args:
        input: with two dims or more.
        offset: how far above the main diagonal, or below where negative.
        dim1: the dim of the rows.
        dim2: the dim of the columns.

    Returns:
        A view without these dims, and with the diagonal as its last one.

    Raises:
        DimensionError: there is no such dim.
        ArgumentError: both dims are the same.

    Gradient:
        That of ``diagonal``.

    Source:
        torch.linalg.diagonal

    Example:
        >>> import oplib
        >>> oplib.linalg.diagonal(oplib.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    return ops.diagonal(input, offset, dim1, dim2)


def linalg_vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Sums products of items along a dim, those of the first vector conjugated.

    Args:
        x: of any shape.
        y: of a shape that broadcasts with it.
        dim: that of the vectors.

    Returns:
        A tensor without this dim.

    Raises:
        ArgumentError: the shapes do not broadcast.
        DimensionError: there is no such dim.

    Gradient:
        That of the product and the sum.

    Source:
        torch.linalg.vecdot

    Example:
        >>> import oplib
        >>> oplib.linalg.vecdot(oplib.tensor([1.0, 2.0]), oplib.tensor([3.0, 4.0]))
        tensor(11.)
    """
    return ops.sum(ops.mul(ops.conj(x), y), dim)


def linalg_multi_dot(tensors: Sequence[Any]) -> Any:
    """Multiplies several matrices, in the order that takes the fewest multiplications.

    Args:
        tensors: two or more matrices that fit; the first and the last may be vectors.

    Returns:
        Their product.

    Raises:
        ArgumentError: there are fewer than two, or they do not fit.

    Gradient:
        That of ``matmul``.

    Source:
        torch.linalg.multi_dot

    Example:
        >>> import oplib
        >>> oplib.linalg.multi_dot([oplib.ones(2, 3), oplib.ones(3, 2), oplib.ones(2)])
        tensor([6., 6.])
    """
    if len(tensors) < 2:
        raise ArgumentError(
            f"linalg.multi_dot: expected at least 2 tensors but got {len(tensors)}. Give the matrices "
            "in one list."
        )
    first, last = tensors[0], tensors[-1]
    sizes = [first.shape[0] if first.ndim > 1 else 1]
    sizes += [one.shape[0] for one in tensors[1:]]
    sizes.append(last.shape[-1] if last.ndim > 1 else 1)
    return _multiply(tensors, _find_order(sizes), (0, len(tensors) - 1))


def _find_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to cut each run of factors, so that the number of multiplications is least."""
    count = len(sizes) - 1
    cost: dict[tuple[int, int], float] = {(place, place): 0 for place in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for start in range(count - length):
            end = start + length
            cost[start, end] = math.inf
            for cut in range(start, end):
                found = cost[start, cut] + cost[cut + 1, end] + sizes[start] * sizes[cut + 1] * sizes[end + 1]
                if found < cost[start, end]:
                    cost[start, end], cuts[start, end] = found, cut
    return cuts


def _multiply(factors: Sequence[Any], cuts: dict[tuple[int, int], int], run: tuple[int, int]) -> Any:
    start, end = run
    if start == end:
        return factors[start]
    cut = cuts[run]
    first, second = (_multiply(factors, cuts, part) for part in ((start, cut), (cut + 1, end)))
    return ops.matmul(first, second)


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
    Composed(linalg_multi_dot),
    Composed(linalg_norm),
    Composed(linalg_vecdot),
)
