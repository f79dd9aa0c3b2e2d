"""Comparison of Tensors, arrays and trees of them, with an error that shows the worst entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.errors import ArgumentValueError, OpMismatchError, describe
from oplib.library.opcheck.comparison import Tolerance, find_difference
from oplib.pytree import tree_flatten_dataclasses
from oplib.pytree.paths import find_different_path
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point

_RTOL = {
    "float64": 1e-7,
    "complex128": 1e-7,
    "float32": 1.3e-6,
    "complex64": 1.3e-6,
    "float16": 1e-3,
    "bfloat16": 1.6e-2,
}
_ATOL = {"float64": 1e-7, "complex128": 1e-7}


@entry_point
def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_dtype: bool = True,
) -> None:
    """Raises if two values, or two trees of values, are not equal within a tolerance.

    Two entries are close if ``|actual - expected| <= atol + rtol * |expected|``. Infinities equal themselves.
    Integers and bools must be equal.

    Args:
        actual: a Tensor, an array, a number, or a tree of these.
        expected: a tree of the same structure. A Tensor may stand for an array, and the reverse.
        rtol: the relative tolerance; by default 1e-7 for float64, 1.3e-6 for float32, 1e-3 for float16 and
            1.6e-2 for bfloat16, as in torch.
        atol: the absolute tolerance; by default 1e-7 for float64, and 1e-5 otherwise. Pass both or none.
        equal_nan: whether a nan equals a nan.
        check_dtype: whether the dtypes must be equal too.

    Raises:
        OpMismatchError: an AssertionError. It names the leaf, the entry that differs most, both values, and
            how many entries differ.
        ArgumentValueError: only one tolerance is given.

    Source:
        ``torch.testing.assert_close``.

    Example:
        >>> import oplib
        >>> assert_close(oplib.ones(2) * 3, {"a": 3.0}["a"] * oplib.ones(2))
        >>> assert_close({"w": oplib.ones(2)}, {"w": oplib.tensor([1.0, 1.5])})
        Traceback (most recent call last):
        oplib.errors.OpMismatchError: assert_close: ['w'] differs: ... at [1] is 1 and 1.5, and 1 of 2 ...
    """
    if (rtol is None) != (atol is None):
        raise ArgumentValueError(
            f"assert_close: rtol and atol belong together. Got rtol={rtol}, atol={atol}. Pass both, or none."
        )
    left, structure = tree_flatten_dataclasses(actual)
    right, expected_structure = tree_flatten_dataclasses(expected)
    if structure != expected_structure:
        raise OpMismatchError(
            "assert_close: the trees have different structures, at "
            f"'{find_different_path(structure, expected_structure)}'. Got {describe(structure)} and "
            f"{describe(expected_structure)}. Compare values of one structure."
        )
    for accessor, value, due in zip(structure.accessors(), left, right, strict=True):
        difference = _compare(value, due, rtol, atol, equal_nan=equal_nan, check_dtype=check_dtype)
        if difference:
            name = accessor.codify("")
            raise OpMismatchError(
                f"assert_close: {f'{name} differs' if name else 'the values differ'}: {difference}. Correct "
                "the computation, or pass rtol and atol."
            )


def _compare(
    value: Any, due: Any, rtol: float | None, atol: float | None, *, equal_nan: bool, check_dtype: bool
) -> str:
    left, right = _to_numpy(value), _to_numpy(due)
    if left is None or right is None:
        return "" if value == due else f"{value!r} and {due!r}"
    if not check_dtype:
        left, right = (array.astype(np.result_type(left, right)) for array in (left, right))
    name = left.dtype.name
    if rtol is None or atol is None:
        is_exact = name not in _RTOL
        rtol, atol = _RTOL.get(name, 0.0), 0.0 if is_exact else _ATOL.get(name, 1e-5)
    return find_difference(left, right, Tolerance(rtol, atol), equal_nan=equal_nan)


def _to_numpy(value: Any) -> np.ndarray[Any, Any] | None:
    if isinstance(value, Tensor):
        value = value.detach().array
    is_value = hasattr(value, "dtype") or isinstance(value, (bool, int, float, complex))
    return np.asarray(value) if is_value else None
