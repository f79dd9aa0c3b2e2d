"""The pseudoinverse of matrices, and least squares by it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from oplib.builtin.kernels.promotion import check_dtypes, find_common_shape
from oplib.builtin.rows.row import Row
from oplib.errors import ArgumentError

from .decompositions import check_matrix, reflect_triangle


def _lstsq(self: Any, B: Any, *, rcond: float | None = None) -> Any:
    """Returns the least squares solution, by the pseudoinverse, whose gradient is known."""
    check_matrix(self, is_square=False)
    check_dtypes(self, B)
    return jnp.matmul(_pinv(self, rtol=rcond), B)


def _pinv(self: Any, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Any:
    """Returns the pseudoinverse by the larger of two bounds; with ``atol`` above 0 alone the other is 0.

    By default the relative bound is the greater size times the machine precision, as in torch.
    """
    if atol:
        return _pinv_bounded(self, atol, rtol, hermitian=hermitian)
    check_matrix(self, is_square=hermitian)
    self = reflect_triangle(self, "L") if hermitian else self
    bound = find_tolerance(self) if rtol is None else rtol
    return jnp.linalg.pinv(self, rtol=bound, hermitian=hermitian)


def find_tolerance(matrix: Any) -> float:
    """Returns the relative tolerance for singular values; 0 for ints, which are refused later."""
    is_inexact = jnp.issubdtype(matrix.dtype, jnp.inexact)
    return float(jnp.finfo(matrix.dtype).eps) * max(matrix.shape[-2:]) if is_inexact else 0.0


def _pinv_bounded(self: Any, atol: Any = None, rtol: Any = None, *, hermitian: bool = False) -> Any:
    """Returns the pseudoinverse by the larger of two bounds for each matrix; defaults as of :func:`_pinv`."""
    check_matrix(self, is_square=hermitian)
    self = reflect_triangle(self, "L") if hermitian else self
    least, ratio = (
        None if array is None else lax.stop_gradient(jnp.asarray(array)) for array in (atol, rtol)
    )
    if any(array is not None and jnp.iscomplexobj(array) for array in (least, ratio)):
        raise ArgumentError("a complex bound is not supported", "Give real ones.")
    least = jnp.zeros((), bool) if least is None else least
    ratio = jnp.where(least > 0, 0, find_tolerance(self)) if ratio is None else ratio
    if not self.size:
        return self.mT
    wide = (lax.expand_dims(array, (array.ndim, array.ndim + 1)) for array in (least, ratio))
    batch = find_common_shape(self, *wide, lead=-2)
    self = jnp.broadcast_to(self, (*batch, *self.shape[-2:]))
    largest = jnp.max(jnp.linalg.svdvals(lax.stop_gradient(self)), axis=-1)
    least, ratio = (jnp.broadcast_to(array, batch).astype(largest.dtype) for array in (least, ratio))
    return _pinv_within(self, lax.max(least / largest, ratio), hermitian)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _pinv_within(matrix: Any, bound: Any, hermitian: bool) -> Any:
    """Computes the pseudoinverse with a bound per matrix; JAX's function has no derivative for this."""
    return jnp.linalg.pinv(matrix, rtol=bound, hermitian=hermitian)


@_pinv_within.defjvp
def _push_pinv(hermitian: bool, primals: Any, tangents: Any) -> tuple[Any, Any]:
    """Golub and Pereyra (1973), The differentiation of pseudo-inverses."""
    matrix, change = primals[0], tangents[0]
    inverse = _pinv_within(*primals, hermitian)
    turned, back = change.mT.conj(), inverse.mT.conj()
    left = turned - turned @ matrix @ inverse
    right = turned - inverse @ matrix @ turned
    return inverse, inverse @ (back @ left - change @ inverse) + right @ back @ inverse


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
        _pinv_bounded,
        "Moore-Penrose pseudoinverse, with bounds for each matrix",
        dtypes="fc",
        autocast="result",
        is_internal=True,
        source="torch.linalg.pinv",
    ),
    Row(
        "linalg_lstsq(Tensor self, Tensor B, *, float? rcond=None) -> Tensor",
        _lstsq,
        "x that minimizes the norm of self @ x - B",
        dtypes="fc",
        autocast="cpu float32",
    ),
)
