"""The pseudoinverse of matrices, and least squares by it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.promotion import check_dtypes, find_common_shape, strong
from oplib.errors import ArgumentError
from oplib.tensor import default_int_dtype
from oplib.tensor.shapes.symbolic import has_symbols

from .decompositions import check_matrix, reflect_triangle


def _lstsq(self: Any, B: Any, *, rcond: float | None = None) -> tuple[Any, Any]:
    """Returns the least squares solution, by the pseudoinverse, whose gradient is known, and the rank."""
    check_matrix(self, is_square=False)
    check_dtypes(self, B)
    bound = find_tolerance(self) if rcond is None else rcond
    inverse, values = _invert(self, 0.0, bound)
    rank = jnp.sum(values > values[..., :1] * bound, -1, dtype=default_int_dtype())
    return jnp.matmul(inverse, B), rank


def find_tolerance(matrix: Any) -> float:
    """Returns the relative tolerance for singular values; 0 for ints, which are refused later."""
    dtype = matrix.dtype
    return float(jnp.finfo(dtype).eps) * max(matrix.shape[-2:]) if jnp.issubdtype(dtype, jnp.inexact) else 0.0


def _pinv(self: Any, atol: Any = None, rtol: Any = None, *, hermitian: bool = False) -> Any:
    """Returns the pseudoinverse by the larger of two bounds; with ``atol`` above 0 alone the other is 0.

    By default the relative bound is the greater size times the machine precision, as in torch.
    """
    check_matrix(self, is_square=hermitian)
    self = reflect_triangle(self, "L") if hermitian else self
    least, ratio = (jnp.asarray(0.0 if bound is None else bound) for bound in (atol, rtol))
    if "c" in (least.dtype.kind, ratio.dtype.kind):
        raise ArgumentError("a complex bound is not supported", "Give real ones.")
    ratio = jnp.where(least > 0, 0, find_tolerance(self)) if rtol is None else ratio
    wide = (array[..., None, None] for array in (least, ratio))
    batch = find_common_shape(self, *wide, lead=-2)
    self = jnp.broadcast_to(self, (*batch, *self.shape[-2:]))
    return _invert(self, *(jnp.broadcast_to(bound, batch) for bound in (least, ratio)))[0]


@jax.custom_jvp
def _invert(matrix: Any, least: Any, ratio: Any) -> tuple[Any, Any]:
    """Returns the pseudoinverse, with bounds per matrix, and the singular values.

    If all matrices have full rank, they are decomposed by QR, in less than half of the time.
    """
    if not matrix.size:
        return matrix.mT, jnp.linalg.svdvals(matrix)
    is_open = has_symbols(matrix.shape[-2:])  # which side is the longer one
    if not is_open and matrix.shape[-2] < matrix.shape[-1]:
        inverse, values = _invert(matrix.mT, least, ratio)
        return inverse.mT, values
    q, r = (matrix, matrix) if is_open else jnp.linalg.qr(matrix)
    values = jnp.linalg.svdvals(r)
    largest = values[..., 0]
    least, ratio = (strong(bound, values) for bound in (least, ratio))
    bound = jnp.maximum(least / largest, ratio)
    decompose = partial(jnp.linalg.pinv, matrix, rtol=bound)
    solve = partial(lax.linalg.triangular_solve, r, q.mT.conj(), left_side=True)
    is_full = (values[..., -1] > largest * bound).all()
    inverse = decompose() if is_open else lax.cond(is_full, solve, decompose)
    # Singular values that are nan make nan, not zeros.
    return inverse + strong(0 * largest[..., None, None], inverse), values


@_invert.defjvp
def _push_inverse(primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Golub and Pereyra (1973), The differentiation of pseudo-inverses; the values count as constant."""
    matrix, change = primals[0], tangents[0]
    inverse, values = _invert(*primals)
    turned, back = change.mT.conj(), inverse.mT.conj()
    left = turned - turned @ matrix @ inverse
    right = turned - inverse @ matrix @ turned
    pushed = inverse @ (back @ left - change @ inverse) + right @ back @ inverse
    return (inverse, values), (pushed, jnp.zeros_like(values))


ROWS = (
    Row(
        "linalg_pinv(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
        _pinv,
        "Moore-Penrose pseudoinverse",
        dtypes="fc",
        autocast="result",
    ),
    Row(
        "linalg_pinv_bounded(Tensor self, Tensor? atol=None, Tensor? rtol=None, *, bool hermitian=False) -> "
        "Tensor",
        _pinv,
        "Moore-Penrose pseudoinverse, with bounds for each matrix",
        dtypes="fc",
        autocast="result",
        is_internal=True,
        source="torch.linalg.pinv",
    ),
    Row(
        "linalg_lstsq(Tensor self, Tensor B, *, float? rcond=None) -> (Tensor, Tensor)",
        _lstsq,
        "x that minimizes the norm of self @ x - B, and the rank of self",
        dtypes="fc",
        autocast="cpu float32",
    ),
)
