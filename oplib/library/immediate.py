"""Kernels that run now, as plain Python on concrete values: host kernels, and ``compile=False``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ResultError, describe

from .kernels import flatten_array_results, host_kernel, run_host_kernel
from .layout import Layout
from .record import Record
from .structure import Structure


def run_on_host(record: Record, layout: Layout, arrays: Sequence[Any]) -> tuple[Structure, list[Any]]:
    """Runs a host kernel on concrete arrays, with no callback in between; results are copied in."""
    structure, flat = run_host_kernel(record, host_kernel(record), layout, arrays)
    return structure, [_copy_in(record, value) for value in flat]


def _copy_in(record: Record, value: Any) -> Any:
    dtype = np.asarray(value).dtype
    if dtype.itemsize == 8 and dtype.kind in "fiu" and not jax.config.read("jax_enable_x64"):
        if dtype.kind == "f":
            raise ResultError(
                f"{record.name}: the host kernel returned {describe(np.asarray(value))} while 64-bit types "
                "are off. Its values would be rounded silently. Return value.astype(numpy.float32), or "
                "enable jax_enable_x64."
            )
        return jnp.array(np.asarray(value).astype(np.int32))
    return jnp.array(value)


def run_plainly(
    record: Record, kernel: Callable[..., Any], layout: Layout, arrays: Sequence[Any]
) -> tuple[Structure, list[Any]]:
    """Runs an array kernel as plain Python, where it may read values."""
    args, kwargs = layout.split(layout.rebuild([jnp.asarray(value) for value in arrays]))
    return flatten_array_results(record, layout, kernel(*args, **kwargs))
