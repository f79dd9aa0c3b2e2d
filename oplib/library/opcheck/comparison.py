"""Comparison of the results of two computations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from oplib.autograd.gradcheck.comparison import find_differing
from oplib.errors import OpMismatchError, describe
from oplib.frozen import frozen

_RTOL = {"float16": 1e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "complex64": 1e-5}
_ATOL = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-5, "complex64": 1e-5}
_EXACT = 1e-7


@frozen
class Tolerance:
    """The tolerance of a comparison; None uses the default of the dtype."""

    rtol: float | None = None
    atol: float | None = None

    def for_dtype(self, dtype: Any) -> tuple[float, float]:
        """Returns the relative and the absolute tolerance for values of a dtype."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        if not jnp.issubdtype(dtype, jnp.inexact):
            return 0.0, 0.0
        name = np.dtype(dtype).name
        return _RTOL.get(name, _EXACT), _ATOL.get(name, _EXACT)


def require_equal(
    actual: Sequence[Any], expected: Sequence[Any], tolerance: Tolerance, what: str, *, advice: str
) -> None:
    """Compares arrays and other values one by one.

    Args:
        actual: the values of one computation.
        expected: the values of the other computation.
        tolerance: the tolerance of the comparison.
        what: names the op and the two computations: "ns::op: the outputs differ between ... and ...".
        advice: the advice in the error.

    Raises:
        OpMismatchError: they differ, in number, kind or value.
    """
    if len(actual) != len(expected):
        raise OpMismatchError(f"{what}. Got {len(actual)} values and {len(expected)}. {advice}")
    for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
        difference = find_difference(left, right, tolerance)
        if difference:
            raise OpMismatchError(f"{what}. At position {index}: {difference}. {advice}")


def find_difference_of_types(left: Any, right: Any) -> str:
    """Returns a text that describes the difference of the shapes or dtypes of two arrays; empty if equal."""
    if tuple(left.shape) != tuple(right.shape):
        return f"Shapes {tuple(left.shape)} and {tuple(right.shape)} are not equal"
    if left.dtype != right.dtype:
        return f"Dtypes {np.dtype(left.dtype).name} and {np.dtype(right.dtype).name} are not equal"
    return ""


def find_difference(left: Any, right: Any, tolerance: Tolerance, *, equal_nan: bool = True) -> str:
    """Returns a text that describes the difference of two values; empty if they are equal."""
    if not hasattr(left, "dtype") or not hasattr(right, "dtype"):
        return (
            ""
            if left == right or (left != left and right != right)
            else f"{describe(left)} and {describe(right)}"
        )
    if difference := find_difference_of_types(left, right):
        return difference
    rtol, atol = tolerance.for_dtype(left.dtype)
    wide = np.complex128 if jnp.issubdtype(left.dtype, jnp.complexfloating) else np.float64
    first, second = np.asarray(left).astype(wide), np.asarray(right).astype(wide)
    same = ~find_differing(second, first, atol, rtol)
    if equal_nan:
        same |= np.isnan(first) & np.isnan(second)
    if same.all():
        return ""
    worst = np.unravel_index(
        int(np.argmax(np.where(same, -1.0, np.nan_to_num(np.abs(first - second), nan=np.inf)))), same.shape
    )
    where = f"[{', '.join(str(int(index)) for index in worst)}]"
    return (
        f"{describe(left)} at {where} is {first[worst]:.7g} and {second[worst]:.7g}, and "
        f"{int((~same).sum())} of {same.size} entries differ"
    )
