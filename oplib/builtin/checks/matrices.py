"""Checks of eager results of linear algebra: compiled code does not raise, but returns inf or nan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer

from oplib.builtin.rows.choice import Check
from oplib.builtin.tables.matrices.ldl import find_broken
from oplib.builtin.tables.matrices.triangles import find_zero
from oplib.builtin.values import find_array, read_known
from oplib.errors import LinAlgError, describe


@jax.jit
def _are_finite(array: Any) -> Any:
    return jnp.all(jnp.isfinite(array))


def _is_broken(value: Any) -> bool:
    """Tells whether a value is known to contain a number that is not finite."""
    array = find_array(value)
    if isinstance(array, Tracer) or getattr(array, "dtype", None) is None or array.dtype.kind not in "fc":
        return False
    return not _are_finite(array)


def _refuse(name: str, lacks: str, cure: str, *, inverts: Callable[..., bool] | None = None) -> Check:
    """Makes the check of an op that needs a kind of matrix; ``inverts`` selects the calls to check."""

    def check(result: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        is_asked = inverts is None or inverts(*args, **kwargs)
        if is_asked and _is_broken(result) and not any(map(_is_broken, (input, *args))):
            raise LinAlgError(f"{name}: {lacks}. Got {describe(input)}. {cure}")
        return result

    return Check(result=check)


_ZERO_AT = "U[{0},{0}] is zero, counted from 1"


def _with_info(
    name: str, lacks: str, cure: str, *, find: Callable[..., Any] | None = None, where: str = _ZERO_AT
) -> Check:
    """Makes the check of an op that returns where it failed, if it is called with a check.

    Args:
        name: the function, for errors.
        lacks: what is wrong with the matrix.
        cure: what to do.
        find: for an op without a status: returns it for the results. All calls are checked then.
        where: what is wrong at a position, which is put in for ``{0}``.
    """

    def check(result: Any, input: Any, *_: Any, check_errors: bool = False, **__: Any) -> Any:
        if check_errors or find is not None:
            indices = read_known(result[-1] if find is None else find(*map(find_array, result)))
            if indices is not None and indices.any():
                index = int(indices[indices > 0].flat[0])
                raise LinAlgError(f"{name}: {lacks}: {where.format(index)}. Got {describe(input)}. {cure}")
        return result

    return Check(result=check)


_find_zero = jax.jit(lambda factors, pivots: find_zero(factors))  # noqa: ARG005  as find_broken
_ZERO_IN_D = "D[{0},{0}] is zero or nan, counted from 1"
_SINGULAR = "the matrix is singular, or one of them is, and has no inverse"
_ELSE = "Use linalg.pinv or linalg.lstsq, or add something to its diagonal."
_SPLIT = "the matrix is singular, or one of them is, and nothing can be solved by its factors"
_NO_LU, _NO_LDL = (f"Call linalg.{name}_factor_ex to get them nevertheless." for name in ("lu", "ldl"))
_INDEFINITE = "the matrix is not positive definite, or one of them is not"
_OTHERWISE = "Make it A @ A.mH plus something on its diagonal, or use linalg.eigh."
CHECKED_RESULTS: dict[str, Check] = {
    "linalg_inv": _refuse("linalg.inv", _SINGULAR, _ELSE),
    "linalg_solve": _refuse("linalg.solve", _SINGULAR, _ELSE),
    "linalg_matrix_power": _refuse("linalg.matrix_power", _SINGULAR, _ELSE, inverts=lambda n: n < 0),
    "linalg_inv_ex": _with_info("linalg.inv_ex", _SINGULAR, _ELSE),
    "linalg_solve_ex": _with_info("linalg.solve_ex", _SINGULAR, _ELSE),
    "linalg_cholesky_ex": _with_info(
        "linalg.cholesky_ex",
        _INDEFINITE,
        _OTHERWISE,
        where="the leading minor of order {0} is not positive definite",
    ),
    "linalg_lu_factor": _with_info("linalg.lu_factor", _SPLIT, _NO_LU, find=_find_zero),
    "linalg_lu_factor_ex": _with_info("linalg.lu_factor_ex", _SPLIT, _NO_LU),
    "linalg_ldl_factor": _with_info(
        "linalg.ldl_factor", _SPLIT, _NO_LDL, find=jax.jit(find_broken), where=_ZERO_IN_D
    ),
    "linalg_ldl_factor_ex": _with_info("linalg.ldl_factor_ex", _SPLIT, _NO_LDL, where=_ZERO_IN_D),
    "linalg_cholesky": _refuse("linalg.cholesky", _INDEFINITE, _OTHERWISE),
}
