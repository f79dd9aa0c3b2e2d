"""Tensors as real vectors: a complex entry counts as two, so that one check serves real and complex alike."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

Vector = np.ndarray[Any, np.dtype[np.float64]]


def to_coordinates(array: Any) -> Vector:
    """Returns the entries of an array one after the other in float64, real before imaginary part."""
    values = np.asarray(array).reshape(-1)
    if np.issubdtype(values.dtype, np.complexfloating):
        return values.astype(np.complex128).view(np.float64)
    return values.astype(np.float64)


def from_coordinates(vector: Vector, like: Any) -> Any:
    """Returns an array with these coordinates, and with shape, dtype and place of another one."""
    values = vector.copy()
    if np.issubdtype(like.dtype, np.complexfloating):
        values = values.view(np.complex128)
    return jax.device_put(values.reshape(like.shape).astype(like.dtype), like.sharding)


def count_coordinates(array: Any) -> int:
    """Returns how many real numbers an array has."""
    return array.size * (2 if np.issubdtype(array.dtype, np.complexfloating) else 1)


def name_entry(place: int, array: Any) -> str:
    """Returns how a message names one coordinate: the index of its entry, and which part of a complex one."""
    if not np.issubdtype(array.dtype, np.complexfloating):
        return _name_index(place, array.shape)
    part = "imaginary" if place % 2 else "real"
    return f"the {part} part of {_name_index(place // 2, array.shape)}"


def _name_index(place: int, shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(int(index)) for index in np.unravel_index(place, shape)) + "]"
