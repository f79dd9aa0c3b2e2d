"""Deprecated forms of subscripts, which warn as in torch: a list in place of a tuple, bytes as a mask."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from oplib.builtin.values import is_traced
from oplib.errors import ArgumentError, describe
from oplib.library.arguments.recording import unbox
from oplib.tensor import Tensor
from oplib.tracebacks import warn_user

_PLAIN = frozenset({int, slice, type(None), type(...)})
_LONGEST = 32  # a list of this length contains positions, whatever its items are


def is_array_subscript(value: object) -> bool:
    """Tells whether a subscript is a tensor or an array."""
    return isinstance(value, (Tensor, jax.Array, np.ndarray))


def list_subscripts(index: Any) -> list[Any]:
    """Returns the subscripts as a list, with masks of bytes as masks of bools."""
    if isinstance(index, tuple):
        items: list[Any] = list(index)
    elif isinstance(index, list) and _stands_for_tuple(index):
        warn_user(
            "index: a list in a tuple's place is deprecated. It is read as one subscript for each dim. "
            "Write x[tuple(seq)], or x[oplib.tensor(seq)] if it contains positions.",
            UserWarning,
        )
        items = list(index)
    else:
        items = [index]
    return [_to_bools(item) if _is_bytes(item) else item for item in items]


def refuse_bytes_to_fill(index: Any, value: Any) -> None:
    """Refuses a single number that is stored through a mask of bytes, as torch does.

    Raises:
        ArgumentError: the arguments have this form.
    """
    items: list[Any] = list(index) if isinstance(index, (tuple, list)) else [index]
    arrays = [item for item in items if is_array_subscript(item) and item.ndim]
    if len(arrays) == 1 and _is_bytes(arrays[0]) and math.prod(np.shape(value)) == 1:
        raise ArgumentError(
            f"setitem: masked_fill_ only supports boolean masks. Got {describe(arrays[0])}. Write "
            "x[mask.bool()] = value."
        )


def _stands_for_tuple(items: list[Any]) -> bool:
    """Applies torch's rule: a short list with an item that is no position stands for a tuple."""
    return len(items) < _LONGEST and any(
        item is None
        or item is Ellipsis
        or isinstance(item, (slice, list, tuple, range))
        or is_array_subscript(item)
        for item in items
        if item.__class__ is not int
    )


def _is_bytes(item: Any) -> bool:
    return item.__class__ not in _PLAIN and is_array_subscript(item) and item.dtype == np.uint8


def _to_bools(item: Any) -> Any:
    if not item.ndim:
        return item != 0 if is_traced(item) else bool(item)
    warn_user(
        "index: indexing with dtype uint8 is now deprecated, please use a dtype bool instead.", UserWarning
    )
    return unbox(item) != 0
