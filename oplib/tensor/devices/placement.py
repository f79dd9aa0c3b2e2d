"""Placement of new values: committed to a device or sharding, or uncommitted.

JAX compiles again for operands that are committed to a device, even to the default one. So values stay
uncommitted unless the user names a device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.sharding import Sharding

from .device import Device, find_default_device, is_abstract, jax_config
from .layout import is_explicit, replicate_on_mesh

Placement: TypeAlias = Any  # a jax.Device, a Sharding, or None: JAX does not publish the type of its devices


def find_target(device: Any) -> Placement:
    """Returns a device argument as a ``jax.Device`` or ``Sharding``.

    Args:
        device: a Device or its spelling, the index of a GPU, a ``jax.Device``, a ``Sharding``, or None.

    Returns:
        A ``jax.Device`` or ``Sharding``; None for None and for the abstract device, so that
        ``device=x.device`` works under a trace.

    Raises:
        DeviceError: the device does not exist.
    """
    if device is None or isinstance(device, (jax.Device, Sharding)):
        return device
    target = Device("cuda", device) if isinstance(device, int) else Device(device)
    return None if target.type == "abstract" else target.to_jax()


def find_placement(device: Any) -> Placement:
    """Returns the placement of new values; None if JAX puts them there by default.

    Raises:
        DeviceError: the device does not exist.
    """
    target = find_target(device)
    if target is None or isinstance(device, (jax.Device, Sharding)) or target != find_default_device():
        return target
    is_free = isinstance(device, (str, Device)) and Device(device).index is None
    return None if is_free or len(jax.local_devices(backend=target.platform)) == 1 else target


def placement_like(array: Any, device: Any) -> Placement:
    """Returns the placement of a tensor like an array: ``device`` if given, else that of the array.

    Args:
        array: an array or tracer. If it is not committed to a device, the new tensor is not either.
        device: as for :func:`find_target`.

    Raises:
        DeviceError: the device does not exist.
    """
    if device is not None:
        return find_placement(device)
    if is_abstract(array):
        return None
    sharding = array.sharding
    is_free = not array.committed and _is_default(sharding, jax_config.jax_default_device)
    return None if is_free else sharding


def find_other_placement(array: Any) -> Placement:
    """Returns the sharding of an array that is committed to other devices than the default one; else None."""
    if isinstance(array, Tracer) or not array.committed:
        return None
    sharding = array.sharding
    return None if _is_default(sharding, jax_config.jax_default_device) else sharding


def find_other_device(array: Any) -> Placement:
    """Returns what :func:`find_other_placement` does, for a value of any shape: None for several devices."""
    placement = find_other_placement(array)
    return None if placement is None or len(placement.device_set) > 1 else placement


def find_whole_placement(array: Any) -> Placement:
    """Returns what :func:`find_other_device` does; where types carry the sharding, the whole mesh."""
    placement = find_other_placement(array)
    return replicate_on_mesh(placement) if is_explicit(placement) else find_other_device(array)


@lru_cache(maxsize=256)
def make_transfer(placement: Placement) -> Callable[[Any], Any]:
    """Returns a function that puts numpy arrays, which nobody writes again, at a sharding or None.

    It compiles once for each shape, and then takes a fifth of the time of ``jax.device_put``: it is for rows
    of one shape.
    """
    return jax.jit(jnp.asarray, out_shardings=placement)


def is_on_default_device(array: Any) -> bool:
    """Returns whether JAX puts new values on the device of an array. True for an array without values."""
    return is_abstract(array) or _is_default(array.sharding, jax_config.jax_default_device)


@lru_cache(maxsize=256)
def _is_default(sharding: Sharding, default: object) -> bool:  # noqa: ARG001  the result depends on it
    return sharding.device_set == {find_default_device()}
