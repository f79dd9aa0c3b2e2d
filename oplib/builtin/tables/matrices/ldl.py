"""Factors L and D of symmetric and Hermitian matrices, and solutions by them, in the format of LAPACK.

JAX has no such function. The loop below chooses the pivots of LAPACK's ``sytf2`` and ``hetf2`` (Bunch and
Kaufman, Some stable methods for calculating inertia and solving symmetric linear systems, Math. Comp. 31,
1977), so the results are torch's. A host callback to SciPy's LAPACK was rejected: it runs on the CPU only,
and every batch would leave the device.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.builtin.rows.row import LinalgRow
from oplib.builtin.shared_kernels.promotion import broadcast_batches, is_integral, strong
from oplib.errors import ArgumentError
from oplib.library import Derivative
from oplib.library.batching_and_sharding.varying import match_varying
from oplib.protocols import AnyFunction, Values
from oplib.tensor.dtypes import names as dtypes

from .decompositions import check_matrix, check_system
from .triangles import find_first

_ALPHA = (1 + math.sqrt(17)) / 8  # bounds the growth of the items
_MISSING = Derivative(missing="torch has none either; linalg.solve has one")


def _map(function: AnyFunction, dims: int, *arrays: Any) -> Any:
    """Calls a function of single matrices on batches of them."""
    for _ in range(dims):
        function = jax.vmap(function)
    return function(*arrays)


def _turn(matrix: Any, hermitian: bool) -> Any:
    return jnp.conj(matrix) if hermitian else matrix


# Factors ----------------------------------------------------------------------------------------------------


def _factor(self: Any, *, hermitian: bool = False) -> tuple[Any, Any]:
    check_matrix(self)
    if not self.size:
        return self, jnp.zeros(self.shape[:-1], dtypes.int32)
    return _map(functools.partial(_factor_one, hermitian=hermitian), self.ndim - 2, self)


def _factor_one(matrix: Any, *, hermitian: bool) -> tuple[Any, Any]:
    """Eliminates one or two columns at a time; the second step of a pair of columns does nothing."""
    count = matrix.shape[-1]
    below = jnp.tril(matrix, -1)
    diagonal = jnp.diag(jnp.diagonal(matrix))
    diagonal = lax.convert_element_type(jnp.real(diagonal), matrix.dtype) if hermitian else diagonal
    start = (
        below + diagonal + _turn(below, hermitian).T,
        jnp.zeros_like(matrix),
        jnp.zeros(count, dtypes.int32),
        jnp.zeros((), dtypes.bool),
    )
    start = tuple(match_varying(start))

    def advance(k: Any, state: Values) -> Values:
        *kept, is_second = state
        after = _eliminate(k, *kept, hermitian=hermitian)
        return tuple(
            jnp.where(is_second, indices, other)
            for indices, other in zip((*kept, ~is_second), after, strict=True)
        )

    return lax.fori_loop(np.int32(0), np.int32(count), advance, start)[1:3]


def _eliminate(k: Any, rest: Any, found: Any, pivots: Any, *, hermitian: bool) -> Values:
    """Returns what is left of the matrix, the factors so far, the pivots, and whether two columns went."""
    indices = jnp.arange(rest.shape[-1], dtype=dtypes.int32)
    taken, is_pair = _choose_pivot(rest, k, indices)
    last = k + lax.convert_element_type(is_pair, dtypes.int32)
    order = _exchange(indices, last, taken)
    rest = rest[order][:, order]
    is_rest = indices > last
    first = jnp.where(is_rest, rest[:, k], 0)
    second = jnp.where(is_rest & is_pair, rest[:, last], 0)
    a, b, c = rest[k, k], jnp.where(is_pair, rest[last, k], 1), rest[last, last]
    turned = _turn(b, hermitian)
    excess = jnp.where(is_pair, (a / b) * (c / turned) - 1, 1)
    alone = first / jnp.where(a == 0, 1, a)
    left = jnp.where(is_pair, ((c / turned) * (first / b) - second / turned) / excess, alone)
    right = ((a / b) * (second / turned) - first / b) / excess
    right = jnp.where(is_pair, right, 0)
    for factor, column in ((left, first), (right, second)):
        rest = rest - factor[:, None] * _turn(column, hermitian)[None, :]
    at_k, at_last = indices == k, indices == last
    left = jnp.where(is_rest, left, jnp.where(at_k, a, jnp.where(at_last, b, 0)))
    right = jnp.where(is_rest, right, jnp.where(at_last, c, 0))
    found = jnp.where((at_last & is_pair)[None, :], right[:, None], found)
    found = jnp.where(at_k[None, :], left[:, None], found)
    number = jnp.where(is_pair, ~taken, taken + np.int32(1))  # counted from 1; negative for a pair
    return rest, found, jnp.where(at_k | at_last, number, pivots), is_pair


def _choose_pivot(rest: Any, k: Any, indices: Any) -> tuple[Any, Any]:
    """Returns the row to exchange, and whether two columns are eliminated together."""
    size = jnp.abs(jnp.real(rest)) + jnp.abs(jnp.imag(rest)) if rest.dtype.kind == "c" else jnp.abs(rest)
    alpha = strong(_ALPHA, size)
    mine = size[k, k]
    below = jnp.where(indices > k, size[:, k], 0)
    rival = lax.argmax(jnp.where(indices > k, size[:, k], -1), 0, dtypes.int32)
    largest = jnp.max(below)
    beside = jnp.max(jnp.where((indices >= k) & (indices != rival), size[:, rival], 0))
    is_kept = (mine >= alpha * largest) | (mine * beside >= alpha * largest * largest) | jnp.isnan(mine)
    is_single = is_kept | (size[rival, rival] >= alpha * beside)
    return jnp.where(is_kept, k, rival), ~is_single


def _exchange(indices: Any, first: Any, other: Any) -> Any:
    return jnp.where(indices == first, other, jnp.where(indices == other, first, indices))


def find_broken(factors: Any, pivots: Any) -> Any:
    """Returns the first position, from 1, at which D is 0 or nan in a block of one; 0 if there is none."""
    diagonal = jnp.diagonal(factors, axis1=-2, axis2=-1)
    return find_first((pivots > np.int32(0)) & ((diagonal == 0) | jnp.isnan(diagonal)))


def _factor_ex(self: Any, *, hermitian: bool = False, check_errors: bool = False) -> tuple[Any, Any, Any]:  # noqa: ARG001  checked around the call
    factors, pivots = _factor(self, hermitian=hermitian)
    return factors, pivots, find_broken(factors, pivots)


# Solutions --------------------------------------------------------------------------------------------------


def _solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    check_system(LD, B)
    if pivots.shape != LD.shape[:-1] or not is_integral(pivots.dtype) or pivots.dtype == dtypes.bool:
        raise ArgumentError(
            "pivots should be integers, one for each row of LD", "Pass the result of linalg.ldl_factor."
        )
    factors, right = broadcast_batches(LD, B)
    if not LD.size:
        return right
    pivots = jnp.broadcast_to(lax.convert_element_type(pivots, dtypes.int32), factors.shape[:-1])
    solve = functools.partial(_solve_one, hermitian=hermitian)
    return _map(solve, factors.ndim - 2, factors, pivots, right)


def _solve_one(factors: Any, pivots: Any, right: Any, *, hermitian: bool) -> Any:
    count = factors.shape[-1]
    order, rows, is_start = _find_exchanges(pivots)
    is_pair = is_start[None, :] & jnp.eye(count, k=-1, dtype=dtypes.bool)
    lower = jnp.where(is_pair, 0, jnp.take_along_axis(factors, rows, 0))
    beside = jnp.sum(jnp.where(is_pair, factors, 0), 0)
    options = {"left_side": True, "lower": True, "unit_diagonal": True}
    solution = lax.linalg.triangular_solve(lower, right[order], **options)
    solution = _divide_blocks(jnp.diagonal(factors), beside, is_start, solution, hermitian)
    solution = lax.linalg.triangular_solve(
        lower, solution, transpose_a=True, conjugate_a=hermitian, **options
    )
    return solution[jnp.argsort(order)]


def _find_exchanges(pivots: Any) -> tuple[Any, Any, Any]:
    """Returns the order of the rows, that of each column of L, and where blocks of two begin.

    LAPACK does not exchange the rows of columns that are complete; a triangular matrix needs it.
    """
    count = pivots.shape[-1]
    indices = jnp.arange(count, dtype=dtypes.int32)

    def advance(k: Any, state: Values) -> Values:
        order, rows, is_start, is_second = state
        is_pair = (pivots[k] < np.int32(0)) & ~is_second
        last = k + lax.convert_element_type(is_pair, dtypes.int32)
        taken = jnp.where(is_second, k, jnp.where(is_pair, ~pivots[k], pivots[k] - np.int32(1)))
        change = _exchange(indices, last, taken)
        rows = jnp.where(indices[None, :] < k, rows[change], rows)
        return order[change], rows, jnp.where(indices == k, is_pair, is_start), is_pair

    rows = jnp.broadcast_to(indices[:, None], (count, count))
    none = jnp.zeros(count, dtypes.bool)
    start = match_varying([indices, rows, none, jnp.zeros((), dtypes.bool), pivots])[:4]
    return lax.fori_loop(np.int32(0), np.int32(count), advance, tuple(start))[:3]


def _divide_blocks(diagonal: Any, beside: Any, is_start: Any, right: Any, hermitian: bool) -> Any:
    """Divides by D, whose blocks of two are ``[[a, turned(b)], [b, c]]``."""
    is_end = jnp.roll(is_start, 1)
    diagonal = lax.convert_element_type(jnp.real(diagonal), diagonal.dtype) if hermitian else diagonal
    b = jnp.where(is_start, beside, jnp.where(is_end, jnp.roll(_turn(beside, hermitian), 1), 1))[:, None]
    turned = _turn(b, hermitian)
    other = jnp.where(is_start, jnp.roll(diagonal, -1), jnp.roll(diagonal, 1))[:, None]
    mine, is_pair = diagonal[:, None], (is_start | is_end)[:, None]
    neighbour = jnp.where(is_start[:, None], jnp.roll(right, -1, 0), jnp.roll(right, 1, 0))
    excess = jnp.where(is_pair, (mine / turned) * (other / b) - 1, 1)
    paired = ((other / b) * (right / turned) - neighbour / b) / excess
    return jnp.where(is_pair, paired, right / jnp.where(is_pair, 1, mine))


ROWS = (
    LinalgRow(
        "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
        _factor,
        "L and D of a symmetric or Hermitian matrix in one, and the pivots of the exchanges, in LAPACK's "
        "format; the lower triangle is read",
        derivative=_MISSING,
    ),
    LinalgRow(
        "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> "
        "(Tensor LD, Tensor pivots, Tensor info)",
        _factor_ex,
        "as linalg_ldl_factor, with the position of the first 0 in D, counted from 1",
        derivative=_MISSING,
    ),
    LinalgRow(
        "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
        _solve,
        "solution of A @ x = B by the factors of A that linalg.ldl_factor returns",
    ),
)
