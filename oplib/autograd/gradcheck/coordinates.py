"""Tensors as real vectors. A complex entry counts as two, so one check serves real and complex tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.tensor.devices.placement import find_other_placement, make_transfer

Vector = np.ndarray[Any, np.dtype[np.float64]]


def to_coordinates(array: Any) -> Vector:
    """Returns the entries of an array in float64, with the real before the imaginary part."""
    values = np.asarray(array).reshape(-1)
    if values.dtype.kind == "c":
        return values.astype(np.complex128).view(np.float64)
    return values.astype(np.float64)


def read_gradient(gradient: Any, like: Any, rows: int = 1) -> Vector:
    """Returns the entries of a gradient or tangent; None stands for zeros in so many rows like an array."""
    return np.zeros(rows * count_coordinates(like)) if gradient is None else to_coordinates(gradient.array)


def from_coordinates(vector: Vector, like: Any) -> Any:
    """Returns an array with these coordinates, and the shape, dtype and device of another array."""
    return from_rows(vector[None], like)[0]


def from_rows(rows: Vector, like: Any) -> list[Any]:
    """Returns an array for each row as :func:`from_coordinates` does."""
    entries: Any = np.ascontiguousarray(rows)
    if like.dtype.kind == "c":
        entries = entries.view(np.complex128)
    values = entries.astype(like.dtype).reshape(len(rows), *like.shape)  # a copy
    put = make_transfer(find_other_placement(like))
    return [put(values[number, ...]) for number in range(len(rows))]


def count_coordinates(array: Any) -> int:
    """Returns the number of real numbers in an array."""
    return array.size * (2 if array.dtype.kind == "c" else 1)


def stack_rows(rows: Sequence[Vector], like: Any) -> np.ndarray[Any, Any]:
    """Returns the matrix of rows, which have the coordinates of an array; there may be no row."""
    return np.stack(rows) if rows else np.zeros((0, count_coordinates(like)))


def draw_directions(count: int, size: int, *, seed: int = 0) -> Vector:
    """Returns unit vectors with entries of both signs, none near zero. No generator of the user is used.

    Args:
        count: the number of vectors, which are the rows of the result.
        size: the number of entries of each.
        seed: selects the vectors.
    """
    generator = np.random.default_rng(seed)
    drawn = generator.uniform(0.2, 1.0, (count, size)) * generator.choice([-1.0, 1.0], (count, size))
    return drawn / np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-30)


def draw_arrays(count: int, like: Any, *, seed: int = 0) -> list[Any]:
    """Returns arrays with the coordinates of random unit vectors, see :func:`draw_directions`."""
    return from_rows(draw_directions(count, count_coordinates(like), seed=seed), like)


def name_entry(index: int, array: Any) -> str:
    """Returns the name of one coordinate in messages: the index of its entry, and the part if complex."""
    if array.dtype.kind != "c":
        return _name_index(index, array.shape)
    part = "imaginary" if index % 2 else "real"
    return f"the {part} part of {_name_index(index // 2, array.shape)}"


def _name_index(index: int, shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(int(number)) for number in np.unravel_index(index, shape)) + "]"
