"""Small arrays that a compiled step leaves in one array, each of which is copied when it is read.

JAX takes a microsecond to return an array, however small it is, and a Tensor around it takes half of one. But
a step that clears its gradients at its start reads none of the last ones (ADR 19).
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np

from oplib.tensor.devices.forked import is_orphan

from .escape import runs_at_once


def copy_part(array: Any, start: int, shape: tuple[int, ...]) -> Any:
    """Returns a part of a flat array, whatever the settings of the thread are."""
    if is_orphan():  # a forked child may read values, but not compute
        return np.asarray(array)[start:][: math.prod(shape)].reshape(shape)
    if runs_at_once() and jax.sharding.get_abstract_mesh().empty:
        return _read(array, start, shape)
    with ThreadPoolExecutor(1) as other:  # it knows no trace and no mesh
        return other.submit(_read, array, start, shape).result()


def _read(array: Any, start: int, shape: tuple[int, ...]) -> Any:
    with (
        jax.default_device(next(iter(array.devices()))),
        jax.transfer_guard("allow"),
        jax.debug_nans(False),
        jax.debug_infs(False),
        jax.no_tracing(False),
    ):
        return _copy_part(array, start, shape)


@partial(jax.jit, static_argnums=2)
def _copy_part(array: Any, start: int, shape: tuple[int, ...]) -> Any:
    return jax.lax.dynamic_slice(array, (start,), (math.prod(shape),)).reshape(shape)
