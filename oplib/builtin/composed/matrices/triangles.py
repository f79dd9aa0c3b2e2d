"""LU decompositions, products of several matrices, and Vandermonde matrices, as at the root of torch."""

from __future__ import annotations

from typing import Any

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError


def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> tuple[Any, ...]:
    """Computes the LU factors of A with exchanged rows, in one matrix; A may be singular.

    ``linalg.lu_factor`` refuses a singular matrix.

    Args:
        A: ``[..., m, n]``, floating or complex.
        pivot: whether rows are exchanged; False is not supported.
        get_infos: whether to return a third result.

    Returns:
        A tuple of the factors ``[..., m, n]``, the pivots of the row exchanges, int32, counted from 1, and on
        request the position of the first 0 on the diagonal of U, or 0.

    Raises:
        ArgumentError: the input has fewer than two dims, or ``pivot=False``.

    Gradient:
        The factors have the gradient of the decomposition.

    Example:
        >>> oplib.lu(oplib.tensor([[1.0, 2.0], [2.0, 2.0]]))[0]
        tensor([[2.0000, 2.0000],
                [0.5000, 1.0000]])
    """
    results = ops.linalg_lu_factor_ex(A, pivot=pivot)
    return results if get_infos else tuple(results[:2])


def linalg_lu(A: Any, *, pivot: bool = True) -> tuple[Any, Any, Any]:
    """Computes a permutation P and triangular L and U with ``P @ L @ U == A``.

    Args:
        A: ``[..., m, n]``, floating or complex.
        pivot: whether rows are exchanged; False is not supported.

    Returns:
        A named tuple ``(P, L, U)``.

    Raises:
        ArgumentError: the input has fewer than two dims, or ``pivot=False``.

    Gradient:
        L and U have the gradient of the decomposition; P has none.

    Example:
        >>> p, l, u = oplib.linalg.lu(oplib.tensor([[1.0, 2.0], [2.0, 2.0]]))
        >>> p @ l @ u
        tensor([[1., 2.],
                [2., 2.]])
    """
    factors, pivots, _ = ops.linalg_lu_factor_ex(A, pivot=pivot)
    return lu_unpack(factors, pivots)


def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Any, Any, Any]:
    """Converts the result of ``linalg.lu_factor`` to a permutation and two triangular matrices.

    Args:
        LU_data: the factors in one matrix, ``[..., m, n]``.
        LU_pivots: the pivots of the row exchanges, int32, counted from 1.
        unpack_data: whether to return L and U; otherwise they are empty.
        unpack_pivots: whether to return P; otherwise it is empty.

    Returns:
        A named tuple ``(P, L, U)``.

    Raises:
        ArgumentError: the pivots are not int32, or their number does not fit.

    Gradient:
        L and U pass the gradient on; P has none.

    Example:
        >>> oplib.lu_unpack(*oplib.linalg.lu_factor(oplib.tensor([[0.0, 2.0], [4.0, 1.0]]))).U
        tensor([[4., 1.],
                [0., 2.]])
    """
    parts = ops.lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots)
    return type(parts)(ops.detach(parts[0]), *parts[1:])


def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """Solves A @ x = b by the factors of A; ``linalg.lu_solve`` takes them first.

    Args:
        b: ``[..., m, k]``, floating or complex.

    Returns:
        ``[..., m, k]``.

    Raises:
        ArgumentError: the shapes or dtypes do not fit.

    Gradient:
        With respect to b and the factors.

    Example:
        >>> factors = oplib.linalg.lu_factor(oplib.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> oplib.lu_solve(oplib.ones(2, 1), *factors)
        tensor([[0.5000],
                [0.2500]])
    """
    return ops.linalg_lu_solve(LU_data, LU_pivots, b)


def chain_matmul(*matrices: Any) -> Any:
    """Multiplies matrices in the order with the fewest multiplications.

    Args:
        *matrices: one or more matrices, each with as many rows as its predecessor has columns.

    Returns:
        The product; a single matrix is returned unchanged.

    Raises:
        ArgumentError: there is no matrix, or an argument is no matrix.

    Gradient:
        The gradient of ``matmul``.

    Example:
        >>> oplib.chain_matmul(oplib.ones(2, 3), oplib.ones(3, 2), oplib.ones(2, 1))
        tensor([[6.],
                [6.]])
    """
    if not matrices or any(matrix.ndim != 2 for matrix in matrices):
        raise ArgumentError(
            "expected one or more matrices, each a tensor of dimension 2",
            "Give vectors a second dim with unsqueeze.",
        )
    return matrices[0] if len(matrices) == 1 else ops.linalg_multi_dot(matrices)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Returns a matrix of the powers of numbers, the highest first; ``linalg.vander`` has the lowest first.

    Args:
        x: a vector.
        increasing: whether the lowest powers come first.

    Returns:
        ``[count, N]``.

    Raises:
        ArgumentError: the input is no vector, or N is negative.

    Gradient:
        The gradient of the powers.

    Example:
        >>> oplib.vander(oplib.tensor([2.0, 3.0]), 3)
        tensor([[4., 2., 1.],
                [9., 3., 1.]])
    """
    count = x.shape[0] if x.ndim == 1 and N is None else N
    if x.ndim != 1 or count is None or count < 0:
        raise ArgumentError("x must be a one-dimensional tensor, and N non-negative", "Flatten it.")
    powers = ops.linalg_vander(x, N=max(count, 2))
    powers = powers if count > 1 else ops.narrow(powers, 1, 0, count)
    return powers if increasing else ops.flip(powers, (1,))


COMPOSED = (
    Composed(chain_matmul),
    Composed(lu, is_method=True, returns="Any"),
    Composed(lu_solve, is_method=True, out=True),
    Composed(lu_unpack),
    Composed(vander),
    Composed(linalg_lu, returns="(Tensor P, Tensor L, Tensor U)"),
)
