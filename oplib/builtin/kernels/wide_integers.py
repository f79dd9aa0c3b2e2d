# ruff: noqa: A002  the parameters are torch's
"""Python integers that JAX's widest dtype does not hold, where the result does not need them as integers.

With torch they are integers of 64 bits. Without x64 there are none here: a comparison has an answer all the
same, and a division has the quotient as a float; the other ops refuse them, where arguments are bound.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from oplib.library.arguments.scalars import is_narrow

_LIMIT = 2**63  # beyond it torch has no integers either


def is_wide(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer of 64 bits for which there is no dtype now."""
    return value.__class__ is int and not is_narrow(value) and -_LIMIT <= value < _LIMIT


def to_quotient_operand(value: Any) -> Any:
    """Returns what stands in a division for a number."""
    return float(value) if is_wide(value) else value


def compare_with_wide(name: str, input: Any, other: int) -> bool | None:
    """Returns what every item's comparison with a wide integer gives.

    Args:
        name: of the comparison.
        input: a tensor or array.
        other: a number that is wide.

    Returns:
        The answer; None where it depends on the item, as of floats, or of integers without sign.
    """
    dtype: Any = np.dtype(getattr(input, "dtype", float))
    if dtype.kind not in "iub" or (dtype.kind != "b" and np.iinfo(dtype).min <= other <= np.iinfo(dtype).max):
        return None
    return {"eq": False, "ne": True, "lt": other > 0, "le": other > 0}.get(name, other < 0)
