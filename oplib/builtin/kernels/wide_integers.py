# ruff: noqa: A002  the parameters are torch's
"""Python integers that JAX's widest dtype does not hold, for results that do not need them as integers.

Torch always has 64-bit integers. JAX has none without x64. A comparison still has an answer, and a division
has the quotient as a float. The other ops refuse such integers when arguments are bound.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from oplib.library.arguments.scalars import is_narrow

_LIMIT = 2**63  # torch has no larger integers


def is_wide(value: Any) -> TypeGuard[int]:
    """Tells whether a value is a 64-bit integer for which no dtype is available."""
    return value.__class__ is int and not is_narrow(value) and -_LIMIT <= value < _LIMIT


def to_quotient_operand(value: Any) -> Any:
    """Returns the operand of a division for a number."""
    return float(value) if is_wide(value) else value


def compare_with_wide(name: str, input: Any, other: int) -> bool | None:
    """Returns the common result of comparing every item with a wide integer.

    Args:
        name: the name of the comparison.
        input: a tensor or array.
        other: a wide integer.

    Returns:
        The result; None if it depends on the item, as for floats or unsigned integers.
    """
    dtype: Any = np.dtype(getattr(input, "dtype", float))
    if dtype.kind not in "iub" or (dtype.kind != "b" and np.iinfo(dtype).min <= other <= np.iinfo(dtype).max):
        return None
    return {"eq": False, "ne": True, "lt": other > 0, "le": other > 0}.get(name, other < 0)
