"""Masks: one flag for each of several values. They take a list apart, and put it together again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Mask = tuple[bool, ...]


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
