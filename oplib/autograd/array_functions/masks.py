"""Values of which some are absent: masks, one flag for each, and None in place of an absent one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

Mask = tuple[bool, ...]
_T = TypeVar("_T")


def pick_true(values: Iterable[Any], mask: Iterable[Any]) -> list[Any]:
    """Returns the values whose flag is true."""
    return [value for value, is_picked in zip(values, mask, strict=True) if is_picked]


def spread(picked: Iterable[Any], mask: Sequence[Any], others: Iterable[Any] | None = None) -> list[Any]:
    """Puts picked values back at their places.

    Args:
        picked: a value for each flag that is true.
        mask: the flags.
        others: what stands at the places of the other flags, a value for each flag; by default None.
    """
    rest = iter(picked)
    if others is None:
        return [next(rest) if is_picked else None for is_picked in mask]
    return [next(rest) if is_picked else other for is_picked, other in zip(mask, others, strict=True)]


def find_true(mask: Iterable[Any]) -> list[int]:
    """Returns the indices of the flags that are true."""
    return [index for index, is_picked in enumerate(mask) if is_picked]


def mask_given(values: Iterable[Any]) -> Mask:
    """Returns a flag for each value: whether it is not None."""
    return tuple([value is not None for value in values])


def pick_given(values: Iterable[_T | None]) -> list[_T]:
    """Returns the values that are not None."""
    return [value for value in values if value is not None]


def map_given(function: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """Returns what a function makes of each value; None stays None."""
    return [None if value is None else function(value) for value in values]
