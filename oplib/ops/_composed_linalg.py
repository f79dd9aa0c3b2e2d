# ruff: noqa: A002, N803  the parameters are torch's
"""Linear algebra that is made of several ops: what ``oplib.linalg`` has beside the decompositions."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, describe
from oplib.tensor import Tensor

from ._composed_shapes import make_adjoint
from ._values import find_array, is_traced

Function = Callable[..., Any]
Functions = Mapping[str, Function]

QR = namedtuple("QR", ("Q", "R"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]  a type of fields would say no more
SVD = namedtuple("SVD", ("U", "S", "V"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]
Triangular = namedtuple("Triangular", ("solution", "cloned_coefficient"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]
Lstsq = namedtuple("Lstsq", ("solution", "residuals", "rank", "singular_values"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]

# Older names ------------------------------------------------------------------------------------------------


def _make_qr(functions: Functions) -> Function:
    op = functions["linalg_qr"]

    def qr(input: Any, some: bool = True) -> Any:
        """Orthonormal Q and triangular R with Q @ R == input; ``linalg.qr`` names the mode."""
        return QR(*op(input, "reduced" if some else "complete"))

    return qr


def _make_svd(functions: Functions) -> Function:
    op, of_values, adjoint = functions["linalg_svd"], functions["linalg_svdvals"], make_adjoint(functions)

    def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
        """U, S and V with U @ diag(S) @ V.mH == input; ``linalg.svd`` gives V.mH."""
        if compute_uv:
            u, s, vh = op(input, not some)
            return SVD(u, s, adjoint(vh))
        lead, rows, columns = tuple(input.shape[:-2]), *input.shape[-2:]
        zeros = [_zeros(input, (*lead, size, size)) for size in (rows, columns)]
        return SVD(zeros[0], of_values(input), zeros[1])

    return svd


def _make_triangular_solve(functions: Functions) -> Function:
    op, clone, adjoint = functions["linalg_solve_triangular"], functions["clone"], functions["transpose"]

    def triangular_solve(
        input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
    ) -> Any:
        """Solves A @ x = input, or A.T @ x = input, where A is triangular; gives x and a copy of A."""
        if input.ndim < 2 or A.ndim < 2:
            raise ArgumentError(
                "triangular_solve: expected both tensors to have at least 2 dimensions. Got "
                f"{describe(input)} and {describe(A)}. Add one with unsqueeze(-1)."
            )
        matrix, is_upper = (adjoint(A, -2, -1), not upper) if transpose else (A, upper)
        return Triangular(op(matrix, input, upper=is_upper, unitriangular=unitriangular), clone(A))

    return triangular_solve


# Least squares ----------------------------------------------------------------------------------------------

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _check_lstsq(A: Any, B: Any, driver: str) -> bool:
    """Returns whether the right side is a batch of vectors."""
    if driver not in _DRIVERS:
        raise ArgumentError(
            f"linalg.lstsq: parameter `driver` should be one of {', '.join(_DRIVERS)}. Got {driver!r}. Leave "
            "it out for gelsy."
        )
    if A.ndim < 2 or not B.ndim:
        raise ArgumentError(
            f"linalg.lstsq: input must have at least 2 dimensions, and other at least 1. Got {describe(A)} "
            f"and {describe(B)}. Reshape them."
        )
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1]))
    if (B.shape[-1] if is_vector else B.shape[-2]) != A.shape[-2]:
        raise ArgumentError(
            f"linalg.lstsq: input.size(-2) should match other.size(-{1 if is_vector else 2}). Got "
            f"{describe(A)} and {describe(B)}. Give as many rows."
        )
    return is_vector


def _make_lstsq(functions: Functions) -> Function:
    solve, of_values = functions["linalg_lstsq"], functions["linalg_svdvals"]
    names = ("matmul", "sub", "abs", "square", "sum", "squeeze", "unsqueeze", "detach")
    call = {name: functions[name] for name in names}

    def lstsq(input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
        """Finds x with the least norm of input @ x - b; also residuals, rank and singular values.

        Which of these there are is torch's rule for its drivers: residuals of matrices of full rank with
        more rows than columns, but not with gelsy, the default; the rank but with gels; singular values
        with gelsd and gelss. What there is none of is empty. One algorithm stands behind all four names.
        """
        way = "gelsy" if driver is None else driver
        is_vector = _check_lstsq(input, b, way)
        right = call["unsqueeze"](b, -1) if is_vector else b
        rows, columns = input.shape[-2:]
        tolerance = _find_tolerance(input) if rcond is None else rcond
        solution = solve(input, right, rcond=None if way == "gels" else tolerance)
        values = of_values(call["detach"](input))
        rank, residuals = _count_rank(values, tolerance), _zeros(values, (0,))
        if way != "gelsy" and rows > columns and (way == "gels" or _is_full(rank, columns)):
            away = call["sub"](call["matmul"](input, solution), right)
            residuals = call["sum"](call["square"](call["abs"](away)), -2)
        found = call["squeeze"](solution, -1) if is_vector else solution
        rank = _zeros(rank, (0,)) if way == "gels" else rank
        return Lstsq(found, residuals, rank, values if way in ("gelsd", "gelss") else _zeros(values, (0,)))

    return lstsq


def _find_tolerance(matrix: Any) -> float:
    return float(np.finfo(np.dtype(matrix.dtype)).eps) * max(matrix.shape[-2:])


def _count_rank(values: Any, tolerance: float) -> Any:
    """How many singular values are more than a part of the largest."""
    if not values.shape[-1]:
        return (values > 0).sum(-1)
    return (values > values[..., :1] * tolerance).sum(-1)


def _is_full(rank: Any, columns: int) -> bool:
    """Whether all matrices have full rank; under a trace that is not known, and taken to be so."""
    return is_traced(rank) or bool(np.all(np.asarray(find_array(rank)) == columns))


# Norms, ranks and products ----------------------------------------------------------------------------------


def _make_linalg_norm(functions: Functions) -> Function:
    of_vector, of_matrix = functions["linalg_vector_norm"], functions["linalg_matrix_norm"]

    def norm(
        input: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        """Norm of vectors or matrices: of all items where neither order nor dims are given."""
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
            return of_matrix(input, ord, list(dims), keepdim, dtype=dtype)
        return of_vector(input, 2 if ord is None else ord, dim, keepdim, dtype=dtype)

    return norm


def _make_matrix_rank(functions: Functions) -> Function:
    of_values, of_hermitian = functions["linalg_svdvals"], functions["linalg_eigvalsh"]

    def matrix_rank(
        input: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
    ) -> Any:
        """How many singular values are above ``max(atol, rtol * largest)``."""
        values = abs(of_hermitian(input)) if hermitian else of_values(input)
        least = tol if tol is not None else (0.0 if atol is None else atol)
        if tol is None:
            default = _find_tolerance(input) if atol is None else 0.0
            bound = functions["amax"](values, -1, True) * (default if rtol is None else rtol)
            return (values > functions["clamp_min"](bound, least)).sum(-1)
        return (values > least).sum(-1)

    return matrix_rank


def _make_cond(functions: Functions) -> Function:
    of_values, norm = functions["linalg_svdvals"], functions["linalg_matrix_norm"]
    inverse = functions["linalg_inv"]

    def cond(input: Any, p: Any = None) -> Any:
        """Condition number: the norm of a matrix times that of its inverse."""
        if p in (None, 2, -2):
            values = of_values(input)
            return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
        return norm(input, p) * norm(inverse(input), p)

    return cond


def _make_pinv(functions: Functions) -> Function:
    op = functions["linalg_pinv"]

    def pinv(
        input: Any, rcond: float | None = None, hermitian: bool = False, *, rtol: float | None = None
    ) -> Any:
        """Pseudoinverse; singular values below ``rcond``, or ``rtol``, times the largest count as 0."""
        return op(input, rtol=rcond if rtol is None else rtol, hermitian=hermitian)

    return pinv


def _make_diagonal(functions: Functions) -> Function:
    op = functions["diagonal"]

    def diagonal(input: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
        """The diagonals of matrices; a view."""
        return op(input, offset, dim1, dim2)

    return diagonal


def _make_vecdot(functions: Functions) -> Function:
    conj, mul, total = functions["conj"], functions["mul"], functions["sum"]

    def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
        """Products of vectors along a dim, the first conjugated."""
        return total(mul(conj(x), y), dim)

    return vecdot


def _make_multi_dot(functions: Functions) -> Function:
    matmul = functions["matmul"]

    def multi_dot(tensors: Sequence[Any]) -> Any:
        """Product of several matrices, in the cheapest order; the first and last may be vectors."""
        if len(tensors) < 2:
            raise ArgumentError(
                f"linalg.multi_dot: expected at least 2 tensors but got {len(tensors)}. Give the matrices "
                "in one list."
            )
        first, last = tensors[0], tensors[-1]
        sizes = [first.shape[0] if first.ndim > 1 else 1]
        sizes += [one.shape[0] for one in tensors[1:]]
        sizes.append(last.shape[-1] if last.ndim > 1 else 1)
        return _multiply(matmul, tensors, _find_order(sizes), 0, len(tensors) - 1)

    return multi_dot


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


def _multiply(matmul: Function, factors: Sequence[Any], cuts: Any, start: int, end: int) -> Any:
    if start == end:
        return factors[start]
    cut = cuts[start, end]
    first, second = (_multiply(matmul, factors, cuts, *run) for run in ((start, cut), (cut + 1, end)))
    return matmul(first, second)


def _zeros(like: Any, shape: tuple[int, ...]) -> Any:
    return like.new_zeros(shape) if isinstance(like, Tensor) else jnp.zeros(shape, like.dtype)


OLDER: dict[str, Callable[[Functions], Function]] = {
    "lstsq": _make_lstsq,
    "qr": _make_qr,
    "svd": _make_svd,
    "triangular_solve": _make_triangular_solve,
}
LINALG: dict[str, Callable[[Functions], Function]] = {
    "linalg_pinv": _make_pinv,
    "linalg_cond": _make_cond,
    "linalg_diagonal": _make_diagonal,
    "linalg_lstsq": _make_lstsq,
    "linalg_matrix_rank": _make_matrix_rank,
    "linalg_multi_dot": _make_multi_dot,
    "linalg_norm": _make_linalg_norm,
    "linalg_vecdot": _make_vecdot,
}
METHODS = ("qr", "svd", "triangular_solve")
