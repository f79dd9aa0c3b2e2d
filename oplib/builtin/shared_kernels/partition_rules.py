"""The frames of ops with several views, which are the parts of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.errors import ArgumentError, DimensionError

from .dims import find_dim
from .view_rules import Part, Several, cut_at, pick


def unbind(spec: Any, dim: int = 0) -> Several:
    """Returns one view per position of an axis."""
    shape = tuple(spec.shape)
    if not shape:
        raise DimensionError(f"dimension specified as {dim} but tensor has no dimensions", "Use the tensor.")
    axis = find_dim(len(shape), dim)
    window = pick(shape, axis)
    parts: list[Part] = [(window, (index,) if window.start_count else ()) for index in range(shape[axis])]
    return Several(parts, "stack", axis)


def split(spec: Any, sizes: Sequence[int], dim: int = 0) -> Several:
    """Returns views of an axis with given lengths."""
    shape = tuple(spec.shape)
    axis = find_dim(len(shape), dim)
    if sum(sizes) != shape[axis] or any(size < 0 for size in sizes):
        raise ArgumentError(
            f"split_sizes expects to sum exactly to {shape[axis]} (the size of dimension {axis})",
            "Give lengths that make up the whole.",
        )
    parts: list[Part] = []
    start = 0
    for size in sizes:
        parts.append(cut_at(shape, axis, start, size))
        start += size
    return Several(parts, "concatenate", axis)


def split_evenly(spec: Any, split_size: int, dim: int = 0) -> Several:
    """Returns views of an axis with a given length; the last view may be shorter."""
    return split(spec, split_lengths(spec, split_size, dim), dim)


def chunk(spec: Any, chunks: int, dim: int = 0) -> Several:
    """Returns at most ``chunks`` views of an axis with lengths as equal as possible."""
    return split(spec, chunk_lengths(spec, chunks, dim), dim)


def split_lengths(spec: Any, split_size: int, dim: int) -> list[int]:
    """Returns the lengths of parts of a given length; the last part may be shorter."""
    shape = tuple(spec.shape)
    if not shape:
        raise ArgumentError("it expects at least a 1-dimensional tensor", "Use the tensor itself.")
    whole = shape[find_dim(len(shape), dim)]
    if split_size < 0 or (not split_size and whole):
        raise ArgumentError(
            "split_size can only be 0 if dimension size is 0, and never negative", "Give a positive one."
        )
    count = max(1, -(-whole // split_size)) if split_size else 1
    return [min(split_size, whole - index * split_size) for index in range(count)]


def chunk_lengths(spec: Any, chunks: int, dim: int) -> list[int]:
    """Returns the lengths of at most ``chunks`` parts, as equal as possible."""
    if isinstance(chunks, float):
        raise TypeError("the schema says it better")
    if not len(spec.shape) or chunks < 1:
        raise ArgumentError(
            "it expects at least a 1-dimensional tensor and `chunks` to be greater than 0",
            "Give a positive number.",
        )
    whole = spec.shape[find_dim(len(spec.shape), dim)]
    return split_lengths(spec, -(-whole // chunks), dim) if whole else [0] * chunks
