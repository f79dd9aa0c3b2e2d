"""Classes of dtypes: a kernel checks, once per signature, that its row allows the dtype."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from oplib.builtin.rows.row import Function
from oplib.errors import UnsupportedDtypeError
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import COMPLEX, INTEGRAL

from .promotion import promote_operands

CLASSES = {"b": "bool", "i": "int", "h": "half", "f": "float", "c": "complex"}
ALL = "".join(CLASSES)
_WIDE = frozenset({dtypes.float32, dtypes.float64})


def classify(dtype: np.dtype[Any]) -> str:
    """Returns the letter of a dtype's class.

    Example:
        >>> classify(np.dtype("int8")), classify(np.dtype("float32"))
        ('i', 'f')
    """
    if dtype in _WIDE:
        return "f"
    if dtype in INTEGRAL:
        return "i"
    if dtype in COMPLEX:
        return "c"
    return "b" if dtype == dtypes.bool else "h"


def describe_classes(classes: str) -> str:
    """Returns the names of classes; "all" for all classes.

    Example:
        >>> describe_classes("ihf")
        'int, half, float'
    """
    return "all" if set(ALL) <= set(classes) else ", ".join(CLASSES[letter] for letter in classes)


def check_classes(kernel: Function, classes: str) -> Function:
    """Wraps a kernel so that it refuses a dtype: the common dtype of its operands, or its argument ``dtype``.

    Keyword-only number arguments are not considered: they have the dtype of the result.

    Args:
        kernel: a kernel of arrays.
        classes: the allowed classes, as letters of ``CLASSES``.
    """
    if set(ALL) <= set(classes):
        return kernel

    @functools.wraps(kernel)
    def checked(*args: Any, **kwargs: Any) -> Any:
        operands = list(_list_arrays(args))
        wanted = kwargs.get("dtype")
        if not operands:
            return kernel(*args, **kwargs)  # it refuses an empty list in its own words
        kind = classify(promote_operands(*operands) if wanted is None else wanted)
        if kind not in classes:
            raise UnsupportedDtypeError(
                f"not implemented for {CLASSES[kind]}",
                f"Convert to what it takes ({describe_classes(classes)}): tensor.to(dtype).",
            )
        return kernel(*args, **kwargs)

    return checked


def _list_arrays(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, jax.Array):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _list_arrays(value)
