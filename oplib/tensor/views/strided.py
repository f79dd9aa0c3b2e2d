"""The frame of torch's strides, which may show an item several times."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from oplib.protocols import Values

from .frame import Layout, Shape, Starts, contiguous_strides, find_positions
from .index_map import IndexMap


class Strided(IndexMap):
    """Shows items by strides and an offset, both in items of torch's memory.

    Make a frame with :meth:`of`.
    """

    __slots__ = ("_key",)

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, in_shape: Shape, layout: Layout, shape: Shape, new: Layout) -> Strided | None:
        """Returns the frame for a whole with this layout; None if the whole does not show all items."""
        wanted = find_positions(shape, new)
        own = find_positions(in_shape, layout)
        if layout[0] == contiguous_strides(in_shape):
            indices = wanted - layout[1]
            fits = not wanted.size or (indices.min() >= 0 and indices.max() < own.size)
        else:
            order = np.argsort(own, axis=None, kind="stable")
            known = own.reshape(-1)[order]
            at = np.minimum(np.searchsorted(known, wanted), max(known.size - 1, 0))
            fits = not wanted.size or (known.size > 0 and bool((known[at] == wanted).all()))
            indices = order[at] if fits and known.size else at
        return cls(in_shape, layout, shape, new, indices.astype(np.int32)) if fits else None

    def __init__(
        self, in_shape: Shape, layout: Layout, shape: Shape, new: Layout, indices: np.ndarray[Any, Any]
    ) -> None:
        super().__init__(in_shape, indices)
        self._key = (in_shape, layout, shape, new)

    def lay_out(self, layout: Layout, starts: Starts) -> Layout:  # noqa: ARG002, D102
        return self._key[3]

    def __reduce__(self) -> Values:
        return Strided.of, self._key
