"""The frame of a view op of a user. It is derived by running the op on the indices of the items."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from oplib.tensor.devices.layout import drop_names

from .frame import Frame, Shape


class IndexMap(Frame):
    """Takes the items of the whole at fixed places. It describes an op that only moves items.

    Attributes:
        indices: the index in the flat whole of each item of the part.
    """

    __slots__ = ("indices", "is_injective")

    def __init__(self, in_shape: Shape, indices: np.ndarray[Any, Any]) -> None:
        self.in_shape, self.shape = in_shape, indices.shape
        self.indices = indices
        self.is_injective = np.unique(indices).size == indices.size

    def get(self, whole: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102  described in Frame
        return lax.reshape(drop_names(whole), (whole.size,))[self.indices]

    def put(self, whole: Any, part: Any, starts: Sequence[Any]) -> Any:  # noqa: ARG002, D102
        flat = lax.reshape(drop_names(whole), (whole.size,))
        flat = flat.at[self.indices].set(drop_names(part), unique_indices=True)
        return lax.reshape(flat, self.in_shape)


def derive_index_map(function: Callable[[Any], Any], whole: Any, part: Any) -> IndexMap | None:
    """Returns the frame of a function of arrays that only moves items; None if the function does more.

    The function receives the indices of the items instead of the items. Its result must consist of indices,
    and the items at these indices must be the part.

    Args:
        function: the function from the whole to the part.
        whole: an array. If it is traced, only shapes and dtypes are compared.
        part: the result of the function.
    """
    shape = tuple(whole.shape)
    count = math.prod(shape)
    with jax.ensure_compile_time_eval():
        try:
            indices = np.asarray(function(jnp.arange(count, dtype=jnp.int32).reshape(shape)))
        except Exception:  # noqa: BLE001  an op that takes no integers does not only move items
            return None
    fits = indices.shape == tuple(part.shape) and part.dtype == whole.dtype and indices.dtype == np.int32
    if not fits or ((indices < 0) | (indices >= count)).any():
        return None
    if not isinstance(part, Tracer) and not isinstance(whole, Tracer):
        taken = np.asarray(whole).reshape(-1)[indices]
        if taken.tobytes() != np.asarray(part).tobytes():
            return None
    return IndexMap(shape, indices)
