"""The check that an array fits into memory, before it is allocated or compiled: XLA can end the process."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax

from oplib.errors import AllocationError, describe_dtype

_ADDRESSES = 2**63
_ALWAYS_FITS = 2**28
_JAX = str(Path(jax.__file__).parent)


def require_memory(
    subject: str, shape: Sequence[Any], dtype: Any, *, in_jit: bool = False, listed: bool = False
) -> None:
    """Raises if an array of this shape cannot exist.

    In a trace of a user's function an array larger than the memory is accepted, because XLA may fuse it.

    Args:
        subject: the function that would make the array, for errors.
        shape: its shape. A symbolic shape is accepted.
        dtype: its dtype.
        in_jit: whether the caller is the body of a compiled function of oplib, which JAX traces.
        listed: whether each item is made for certain, by Python or as a result, also in a trace.

    Raises:
        AllocationError: the array has more bytes than can be addressed, or than the memory has.
    """
    if not all(isinstance(length, int) for length in shape):
        return
    size = math.prod(shape) * getattr(dtype, "itemsize", 1)
    if size < _ALWAYS_FITS:
        return
    memory = _ADDRESSES - 1 if not listed and _is_inside_jax(in_jit=in_jit) else find_memory()
    if size > memory:
        raise AllocationError(
            f"{subject}: the result does not fit into memory. Got "
            f"{describe_dtype(dtype)}[{','.join(map(str, shape))}], which has {size} bytes; there are "
            f"{memory}. Check the sizes, or compute it in parts."
        )


@lru_cache(maxsize=1)
def find_memory() -> int:
    """Returns the number of bytes of memory of all devices, as far as known."""
    devices = jax.devices()
    if devices[0].platform == "cpu":
        return min(_read_physical_memory(), _read_address_space())
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    known = [stat["bytes_limit"] for stat in stats if "bytes_limit" in stat]
    return max(known) * len(devices) if known else _ADDRESSES - 1


def _read_physical_memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # the system does not report it
        return _ADDRESSES - 1


def _read_address_space() -> int:
    try:
        import resource  # noqa: PLC0415  Windows has none
    except ImportError:
        return _ADDRESSES - 1
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return limit if 0 <= limit < _ADDRESSES else _ADDRESSES - 1


def _is_inside_jax(*, in_jit: bool) -> bool:
    """Returns whether JAX runs the code that called oplib. The innermost jit of oplib does not count."""
    frame = sys._getframe(2)
    calls, was_jax = 0, False
    while frame is not None:
        is_jax = frame.f_code.co_filename.startswith(_JAX)
        calls += is_jax and not was_jax
        was_jax = is_jax
        frame = frame.f_back
    return calls > in_jit
