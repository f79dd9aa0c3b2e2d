# ruff: noqa: A002, N803  the parameters are torch's
"""Least squares: the solution is an op, and what torch gives beside it is computed from that."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.builtin.single_ops import ops
from oplib.builtin.values import find_array, is_traced, make_zeros
from oplib.errors import ArgumentError, describe

Lstsq = namedtuple("Lstsq", ("solution", "residuals", "rank", "singular_values"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def linalg_lstsq(input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Finds x with the least norm of ``input @ x - b``; also residuals, rank and singular values.

    Which of these there are is torch's rule for its drivers; what there is none of is empty. Residuals:
    where matrices of full rank have more rows than columns, but not with gelsy. The rank: but with gels.
    Singular values: with gelsd and gelss. One algorithm stands behind all four names.

    Args:
        input: ``[..., m, n]``, floating or complex.
        b: ``[..., m, k]``, or a batch of vectors ``[..., m]``.
        rcond: singular values below this times the largest count as 0; by default by the precision.
        driver: "gelsy", which is the default, "gels", "gelsd" or "gelss".

    Returns:
        A named tuple ``(solution, residuals, rank, singular_values)``; the solution is ``[..., n, k]``.

    Raises:
        ArgumentError: there is no such driver, or the shapes do not fit.

    Gradient:
        Of solution and residuals that of the op ``linalg_lstsq``; the rest has none.

    Source:
        torch.linalg.lstsq

    Example:
        >>> import oplib
        >>> oplib.linalg.lstsq(oplib.tensor([[2.0, 0.0], [0.0, 4.0]]), oplib.tensor([[2.0], [8.0]])).solution
        tensor([[1.],
                [2.]])
    """
    way = "gelsy" if driver is None else driver
    is_vector = _check_lstsq(input, b, way)
    right = ops.unsqueeze(b, -1) if is_vector else b
    rows, columns = input.shape[-2:]
    tolerance = find_tolerance(input) if rcond is None else rcond
    solution = ops.linalg_lstsq(input, right, rcond=None if way == "gels" else tolerance)
    values = ops.linalg_svdvals(ops.detach(input))
    rank, residuals = _count_rank(values, tolerance), make_zeros(values, (0,))
    if way != "gelsy" and rows > columns and (way == "gels" or _is_full(rank, columns)):
        away = ops.sub(ops.matmul(input, solution), right)
        residuals = ops.sum(ops.square(ops.abs(away)), -2)
    found = ops.squeeze(solution, -1) if is_vector else solution
    rank = make_zeros(rank, (0,)) if way == "gels" else rank
    return Lstsq(found, residuals, rank, values if way in ("gelsd", "gelss") else make_zeros(values, (0,)))


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


def find_tolerance(matrix: Any) -> float:
    """Returns up to which part of the largest a singular value counts as 0; for ints, refused later, 0."""
    is_inexact = jnp.issubdtype(matrix.dtype, jnp.inexact)
    return float(jnp.finfo(matrix.dtype).eps) * max(matrix.shape[-2:]) if is_inexact else 0.0


def _count_rank(values: Any, tolerance: float) -> Any:
    """How many singular values are more than a part of the largest."""
    if not values.shape[-1]:
        return (values > 0).sum(-1)
    return (values > values[..., :1] * tolerance).sum(-1)


def _is_full(rank: Any, columns: int) -> bool:
    """Whether all matrices have full rank; under a trace that is not known, and taken to be so."""
    return is_traced(rank) or bool(np.all(np.asarray(find_array(rank)) == columns))
