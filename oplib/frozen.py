"""The decorator of records: dataclasses whose fields cannot be assigned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, dataclass_transform


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
