"""The frame of a view op that a user registered, found out by showing the op which item is which."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from .frame import Frame, Shape


class IndexMap(Frame):
    """Takes the items of the whole at fixed places: what an op does that only moves items.

    Attributes:
        places: for each item of the part its place in the whole, counted row by row.
    """

    __slots__ = ("is_injective", "places")

    def __init__(self, in_shape: Shape, places: np.ndarray[Any, Any]) -> None:
        self.in_shape, self.shape = in_shape, places.shape
        self.places = places
        self.is_injective = np.unique(places).size == places.size

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return lax.reshape(whole, (whole.size,))[self.places]

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        flat = lax.reshape(whole, (whole.size,)).at[self.places].set(part, unique_indices=True)
        return lax.reshape(flat, self.in_shape)


def derive_index_map(function: Callable[[Any], Any], whole: Any, part: Any) -> IndexMap | None:
    """Returns the frame of a function of arrays that moves items, or None if it does anything else.

    The function is given the places of the items instead of these. What it makes of them must be places
    again, and the items there those of the part.

    Args:
        function: from the whole to the part.
        whole: an array, or a traced one, with which only shapes and dtypes are compared.
        part: what the function made of it.
    """
    shape = tuple(whole.shape)
    count = math.prod(shape)
    with jax.ensure_compile_time_eval():
        try:
            places = np.asarray(function(jnp.arange(count, dtype=jnp.int32).reshape(shape)))
        except Exception:  # noqa: BLE001  an op that takes no integers moves none, whatever it raises
            return None
    fits = places.shape == tuple(part.shape) and part.dtype == whole.dtype and places.dtype == np.int32
    if not fits or ((places < 0) | (places >= count)).any():
        return None
    if not isinstance(part, Tracer) and not isinstance(whole, Tracer):
        taken = np.asarray(whole).reshape(-1)[places]
        if taken.tobytes() != np.asarray(part).tobytes():
            return None
    return IndexMap(shape, places)
