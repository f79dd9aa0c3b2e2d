"""Calls with long lists of Tensors, over the bare compiled call."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp

import oplib

from .rounds import Case, Effort, compare
from .sample_ops import make_arrays, make_constants, make_leaves
from .table import Row


def measure(effort: Effort) -> Iterator[Row]:
    """Yields a row for each length, of Tensors without and with a gradient."""
    bare = jax.jit(lambda *arrays: jnp.stack(arrays))
    for count in (64, 512):
        arrays = make_arrays(count)
        for tensors, recorded in ((make_constants(arrays), ""), (make_leaves(arrays), ", recorded")):
            times = compare(Case(oplib.stack, tensors), Case(bare, *arrays), effort)
            yield Row(f"a list of {count} Tensors in one call{recorded}", "bare jit", 2.0, times)
