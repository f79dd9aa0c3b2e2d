"""Least squares: the solution is an op, and torch's further results are computed from it."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from oplib.builtin.single_ops import ops
from oplib.builtin.values import make_zeros, read_known
from oplib.errors import ArgumentError

Lstsq = namedtuple("Lstsq", ("solution", "residuals", "rank", "singular_values"))  # noqa: PYI024  # pyright: ignore[reportUntypedNamedTuple]
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def linalg_lstsq(input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Finds the x that minimizes the norm of ``input @ x - b``; also residuals, rank and singular values.

    As in torch, the driver decides which of these are computed; the others are empty. Residuals are computed
    for matrices of full rank with more rows than columns, except by gelsy. The rank is computed except by
    gels. Singular values are computed by gelsd and gelss. One algorithm serves all four names.

    Args:
        input: ``[..., m, n]``, floating or complex.
        b: ``[..., m, k]``, or a batch of vectors ``[..., m]``.
        rcond: singular values below this times the largest count as 0; the default depends on the precision.
        driver: "gelsy" (the default), "gels", "gelsd" or "gelss".

    Returns:
        A named tuple ``(solution, residuals, rank, singular_values)``; the solution is ``[..., n, k]``.

    Raises:
        ArgumentError: the driver does not exist, or the shapes do not fit.

    Gradient:
        Solution and residuals have the gradient of the op ``linalg_lstsq``; the other results have none.

    Example:
        >>> oplib.linalg.lstsq(oplib.tensor([[2.0, 0.0], [0.0, 4.0]]), oplib.tensor([[2.0], [8.0]])).solution
        tensor([[1.],
                [2.]])
    """
    way = "gelsy" if driver is None else driver
    is_vector = _check_lstsq(input, b, way)
    right = ops.unsqueeze(b, -1) if is_vector else b
    rows, columns = input.shape[-2:]
    solution, rank = ops.linalg_lstsq(input, right, rcond=None if way == "gels" else rcond)
    known = read_known(rank)  # under a trace all ranks are taken to be full
    is_full = way == "gels" or known is None or (known == columns).all()
    if way != "gelsy" and rows > columns and is_full:
        away = ops.sub(ops.matmul(input, solution), right)
        residuals = ops.sum(ops.square(ops.abs(away)), -2)
    else:  # empty, with the history of the solution
        residuals = ops.abs(ops.narrow(ops.flatten(solution), 0, 0, 0))
    rank = make_zeros(rank, (0,)) if way == "gels" else rank
    has_values = way in ("gelsd", "gelss")
    values = ops.linalg_svdvals(ops.detach(input)) if has_values else make_zeros(residuals, (0,))
    return Lstsq(ops.squeeze(solution, -1) if is_vector else solution, residuals, rank, values)


def _check_lstsq(A: Any, B: Any, driver: str) -> bool:
    """Returns whether the right-hand side is a batch of vectors."""
    if driver not in _DRIVERS:
        raise ArgumentError(
            f"parameter `driver` should be one of {', '.join(_DRIVERS)}", "Leave it out for gelsy."
        )
    if A.ndim < 2 or not B.ndim:
        raise ArgumentError("input must have at least 2 dimensions, and other at least 1", "Reshape them.")
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    side = 1 if is_vector else 2
    if B.shape[-side] != A.shape[-2]:
        raise ArgumentError(
            f"input.size(-2) should match other.size(-{side})", "Pass matrices with as many rows."
        )
    return is_vector
