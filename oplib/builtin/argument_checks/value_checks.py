"""Checks around a call: compiled code clamps or drops invalid positions, and returns nan for no result."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from oplib.builtin.rows.choice import Check
from oplib.builtin.shared_kernels.dims import name_indices
from oplib.builtin.shared_kernels.interpolation import check_counts
from oplib.builtin.shared_kernels.promotion import find_largest, find_smallest
from oplib.builtin.tables.matrices.ldl import find_broken
from oplib.builtin.tables.matrices.triangles import find_zero
from oplib.builtin.tables.pointwise.polynomials import FAMILIES as POLYNOMIALS, MOST_STEPS
from oplib.builtin.values import are_indices, is_traced, read_known
from oplib.errors import ArgumentError, ArgumentValueError, DimensionError, LinAlgError
from oplib.library.arguments.plain_conversions import is_array
from oplib.library.arguments.recording import unbox
from oplib.protocols import AnyFunction
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.dtypes.rules import INTEGRAL

from .stored_numbers import check_fits, check_numbers_fit

# Results of linear algebra: compiled code does not raise, but returns inf or nan ----------------------------


@jax.jit
def _are_finite(array: Any) -> Any:
    return jnp.all(jnp.isfinite(array))


def _is_broken(value: Any) -> bool:
    """Tells whether a value is known to contain a number that is not finite."""
    array = unbox(value)
    dtype = getattr(array, "dtype", bool)
    return not isinstance(array, Tracer) and jnp.issubdtype(dtype, jnp.inexact) and not _are_finite(array)


@jax.jit
def _is_singular(matrix: Any) -> Any:
    return jnp.any(find_zero(lax.linalg.lu(matrix)[0]))


def _make_check(
    lacks: str,
    cure: str,
    *,
    inverts: Callable[..., bool] | None = None,
    confirms: Callable[[Any], Any] = _is_singular,
) -> Check:
    """Makes the check of an op whose result is not finite for some matrices.

    Args:
        lacks: the property that these matrices lack.
        cure: the advice to the user.
        inverts: selects the calls to check by their arguments; by default all.
        confirms: tells from the matrices whether they lack it: a result may also be too large for its dtype.
    """

    def check(result: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        is_asked = inverts is None or inverts(*args, **kwargs)
        is_broken = is_asked and _is_broken(result) and not any(map(_is_broken, (input, *args)))
        if is_broken and confirms(unbox(input)):
            raise LinAlgError(lacks, cure)
        return result

    return Check(result=check)


_ZERO_AT = "U[{0},{0}] is zero, counted from 1"


def _make_status_check(
    lacks: str, cure: str, *, find: AnyFunction | None = None, where: str = _ZERO_AT
) -> Check:
    """Makes the check of an op that returns where it failed, if it is called with a check.

    Args:
        lacks: the property that the matrix lacks.
        cure: the advice to the user.
        find: computes the status from the results of an op that returns none. All calls are checked then.
        where: the text about a position, which replaces ``{0}``.
    """

    def check(result: Any, *_: Any, check_errors: bool = False, **__: Any) -> Any:
        if check_errors or find is not None:
            indices = read_known(result[-1] if find is None else find(*map(unbox, result)))
            if indices is not None and indices.any():
                index = int(indices[indices > 0].flat[0])
                raise LinAlgError(f"{lacks}: {where.format(index)}", cure)
        return result

    return Check(result=check)


_find_zero = jax.jit(lambda factors, pivots: find_zero(factors))  # noqa: ARG005  as find_broken
_ZERO_IN_D = "D[{0},{0}] is zero or nan, counted from 1"
_SINGULAR = "the matrix is singular, or one of them is, and has no inverse"
_USE_PINV = "Use linalg.pinv or linalg.lstsq, or add something to its diagonal."
_UNSOLVABLE = "the matrix is singular, or one of them is, and nothing can be solved by its factors"
_NO_LU, _NO_LDL = (f"Call linalg.{name}_factor_ex to get them nevertheless." for name in ("lu", "ldl"))
_INDEFINITE = "the matrix is not positive definite, or one of them is not"
_USE_EIGH = "Make it A @ A.mH plus something on its diagonal, or use linalg.eigh."
CHECKED_RESULTS: dict[str, Check] = {
    "linalg_inv": _make_check(_SINGULAR, _USE_PINV),
    "linalg_solve": _make_check(_SINGULAR, _USE_PINV),
    "linalg_matrix_power": _make_check(_SINGULAR, _USE_PINV, inverts=lambda n: n < 0),
    "linalg_inv_ex": _make_status_check(_SINGULAR, _USE_PINV),
    "linalg_solve_ex": _make_status_check(_SINGULAR, _USE_PINV),
    "linalg_cholesky_ex": _make_status_check(
        _INDEFINITE,
        _USE_EIGH,
        where="the leading minor of order {0} is not positive definite",
    ),
    "linalg_lu_factor": _make_status_check(_UNSOLVABLE, _NO_LU, find=_find_zero),
    "linalg_lu_factor_ex": _make_status_check(_UNSOLVABLE, _NO_LU),
    "linalg_ldl_factor": _make_status_check(
        _UNSOLVABLE, _NO_LDL, find=jax.jit(find_broken), where=_ZERO_IN_D
    ),
    "linalg_ldl_factor_ex": _make_status_check(_UNSOLVABLE, _NO_LDL, where=_ZERO_IN_D),
    "linalg_cholesky": _make_check(_INDEFINITE, _USE_EIGH, confirms=lambda _: True),
}


# Positions, shapes and numbers ------------------------------------------------------------------------------


# For these functions torch counts negative positions from the end; for others it refuses them.
_FROM_THE_END = frozenset({"index_fill", "put", "take", "take_along_dim"})


def check_index_range(index: Any, length: int, *, low: int = 0, but: int | None = None) -> None:
    """Raises if a tensor contains a number that is no position.

    Args:
        index: a tensor or array of positions; traced values and values that are no integers are not checked.
        length: the number of positions.
        low: the lowest valid number.
        but: a further valid number.

    Raises:
        DimensionError: the tensor contains such a number.
    """
    if low <= 0 and are_indices(index, length):
        return
    array = unbox(index)
    if (
        isinstance(array, Tracer)
        or getattr(array, "dtype", np.dtype(bool)).kind not in "iu"
        or not array.size
    ):
        return
    values = np.asarray(array)
    if values.min() >= low and values.max() < length:  # a fifth of the cost of finding the wrong number
        return
    wrong = values[((values < low) | (values >= length)) & (values != (low if but is None else but))]
    if wrong.size:
        raise DimensionError(
            f"index {wrong.flat[0]} is out of bounds for a dimension of size {length}",
            name_indices(length, low=low),
        )


def _check_along(name: str, input: Any, dim: Any, index: Any, *_: Any, **__: Any) -> None:
    shape = input.shape or (1,)  # a tensor without axes has one position
    if isinstance(dim, int) and -len(shape) <= dim < len(shape):
        length = shape[dim]
        check_index_range(index, length, low=-length if name in _FROM_THE_END else 0)


def _check_along_and_value(name: str, input: Any, dim: Any, index: Any, value: Any) -> None:
    _check_along(name, input, dim, index)
    check_fits(name, input, value)


def _check_flat(input: Any, index: Any, *_: Any) -> None:
    length = math.prod(input.shape)
    check_index_range(index, length, low=-length)


def _check_along_dim(input: Any, indices: Any, dim: Any) -> None:
    if dim is None or (isinstance(dim, int) and -input.ndim <= dim < input.ndim):
        length = math.prod(input.shape) if dim is None else input.shape[dim]
        check_index_range(indices, length, low=-length)


def _check_classes(input: Any, target: Any, weight: Any, *, ignore_index: int, **_: Any) -> None:  # noqa: ARG001  as the op is called
    if shape := input.shape:
        check_index_range(target, shape[1 if len(shape) > 1 else 0], but=ignore_index)


def _check_labels(name: str, input: Any, target: Any, *_: Any, **__: Any) -> None:
    """Checks several labels per row, in which -1 marks the end of the row."""
    low = -1 if name == "multilabel_margin_loss" else 0
    if input.ndim:
        check_index_range(target, input.shape[-1], low=low)


def _check_source(input: Any, mask: Any, source: Any) -> None:
    """Checks that masked_scatter has a source item per position; counts only if the source may be short."""
    array = unbox(mask)
    is_known = getattr(array, "dtype", None) == np.dtype(bool) and not isinstance(array, Tracer)
    if is_known and array.shape == input.shape and math.prod(source.shape) < math.prod(input.shape):
        count = int(np.asarray(array).sum())
        if count > math.prod(source.shape):
            raise ArgumentError(f"the source has too few items for {count} positions", f"Pass {count} items.")


def _check_padding(input: Any, pad: Any, mode: Any, value: Any) -> None:  # noqa: ARG001
    check_fits("pad", input, value)


def _check_adaptive_pool(name: str, input: Any, output_size: Any, *_: Any) -> None:
    """Checks that the result of an adaptive pooling fits into memory, before a trace lists its windows."""
    rank = int(name.removesuffix("_with_indices")[-2])
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    shape = [size for size in sizes if isinstance(size, int)]
    require_memory(name, shape, getattr(input, "dtype", None), listed=True)


def _check_dimension(input: Any, p: Any) -> None:
    """Checks that the terms of mvlgamma fit into memory: a trace lists them."""
    if isinstance(p, int):
        require_memory("mvlgamma", (p,), getattr(input, "dtype", None), listed=True)


def _check_degree(x: Any, n: Any) -> None:  # noqa: ARG001  as the op is called
    """Checks a degree that is a number: the recurrence takes a step for each."""
    if isinstance(n, (int, float)) and n > MOST_STEPS:
        raise ArgumentValueError(
            f"the degree is too large; the largest is {MOST_STEPS}", "Use an asymptotic formula."
        )


@jax.jit
def _find_extremes(*arrays: Any) -> Any:
    """Returns the lowest and highest item of each array, one row per array; nan if it contains nan."""
    return jnp.stack(
        [jnp.stack([find_smallest(array), find_largest(array)]).astype(jnp.float32) for array in arrays]
    )


def _check_shares(result: Any, input: Any, target: Any, *_: Any, **__: Any) -> Any:
    """Refuses probabilities outside [0, 1], if the values are known. Other errors have priority."""
    arrays = [unbox(array) for array in (input, target)]
    if all(map(_has_values, arrays)):
        extremes = zip(("input", "target"), np.asarray(_find_extremes(*arrays)), strict=True)
        for kind, (low, high) in extremes:
            if not (low >= 0 and high <= 1):  # also refuses nan
                raise ArgumentError(
                    f"all elements of {kind} should be between 0 and 1, and they are from {low:.6g} to "
                    f"{high:.6g}",
                    "Take sigmoid of it, or use binary_cross_entropy_with_logits.",
                )
    return result


def _check_start(input: Any, dim: Any, start: Any, length: Any) -> None:  # noqa: ARG001  as narrow is called
    if is_array(start) and (start.ndim or start.dtype not in INTEGRAL):
        raise ArgumentError("start must be an 0-dim integral Tensor", "Give one whole number.")


def _check_range(input: Any, bins: Any = 100, *ends: float, **given: Any) -> None:
    ends = (*ends, *(given.get("range") or ()), given.get("min", 0), given.get("max", 0))
    is_finite = all(map(math.isfinite, ends)) if any(ends) else not _is_broken(input)
    if isinstance(bins, int) and not is_finite:
        raise ArgumentError("the range is not finite", "Give its ends, or remove infinities and nan.")


def _has_values(array: Any) -> bool:
    is_array = isinstance(array, (jax.Array, np.ndarray)) and not is_traced(array)
    return is_array and array.size > 0 and jnp.issubdtype(array.dtype, jnp.floating)


_CHECKS: tuple[tuple[Callable[..., None], tuple[str, ...]], ...] = (
    (_check_along, ("gather", "index_select", "scatter", "scatter_add", "scatter_reduce")),
    (_check_along, ("index_add", "index_copy", "index_reduce")),
    (_check_along_and_value, ("index_fill",)),
    (_check_labels, ("multi_margin_loss", "multilabel_margin_loss")),
    (_check_adaptive_pool, tuple(f"adaptive_avg_pool{rank}d" for rank in (1, 2, 3))),
    (_check_adaptive_pool, tuple(f"adaptive_max_pool{rank}d_with_indices" for rank in (1, 2, 3))),
    (check_numbers_fit, ("clamp_min", "clamp_max")),
)
CHECKED = {
    **{name: Check(partial(check, name)) for check, names in _CHECKS for name in names},
    **dict.fromkeys(("nll_loss", "cross_entropy"), Check(_check_classes)),
    **dict.fromkeys(("take", "put"), Check(_check_flat)),
    **dict.fromkeys([f"special_{name}" for name in POLYNOMIALS], Check(_check_degree)),
    **dict.fromkeys(("histc", "histogram"), Check(_check_range)),
    "binary_cross_entropy": Check(result=_check_shares),
    "interpolate": Check(check_counts),
    "masked_scatter": Check(_check_source),
    "mvlgamma": Check(_check_dimension),
    "narrow": Check(_check_start),
    "pad": Check(_check_padding),
    "take_along_dim": Check(_check_along_dim),
    **CHECKED_RESULTS,
}
