"""Frozen values: the decorator of records, whose fields cannot be assigned, and keys of static values."""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, dataclass_transform

import numpy as np


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Any) -> Any:
    """Makes a class a frozen dataclass with slots.

    Args:
        cls: the class.

    Example:
        >>> from oplib.frozen import frozen
        >>> @frozen
        ... class Point:
        ...     x: int
        >>> Point(3)
        Point(x=3)
    """
    return dataclass(cls, frozen=True, slots=True)


def freeze(value: Any) -> object:
    """Returns a key that is equal exactly for values that compiled code may treat alike.

    ``1``, ``1.0`` and ``True`` have three keys, and so have ``0.0`` and ``-0.0``: floats are compared by
    their bits, containers with their types.

    Args:
        value: a static argument or an attribute of ctx.

    Raises:
        TypeError: the value or one of its items cannot be hashed.

    Example:
        >>> from oplib.frozen import freeze
        >>> freeze(0.0) == freeze(-0.0), freeze(1) == freeze(True), freeze([1.0]) == freeze([1.0])
        (False, False, True)
    """
    if isinstance(value, float):
        return (type(value), struct.pack("d", value))
    if isinstance(value, complex):
        return (type(value), struct.pack("dd", value.real, value.imag))
    if isinstance(value, (list, tuple)):
        return (type(value), *map(freeze, value))
    if isinstance(value, Mapping):
        return (type(value), *((freeze(key), freeze(item)) for key, item in value.items()))
    if isinstance(value, (np.generic, np.ndarray)):
        return (type(value), value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (set, frozenset)):
        return (type(value), frozenset(map(freeze, value)))
    hash(value)
    if is_dataclass(value) and type(value).__hash__ is not object.__hash__:  # compared by its fields
        return (
            type(value),
            *(freeze(getattr(value, field.name)) for field in fields(value) if field.compare),
        )
    return value if isinstance(value, enum.Enum) else (type(value), value)
