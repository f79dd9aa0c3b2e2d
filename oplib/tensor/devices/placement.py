"""Where new values go: bound to a device or a sharding, or left to JAX.

JAX compiles anew for operands that are bound to a device, also where it would have put them there anyway. So
what nobody means to bind is left unbound.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
from jax.sharding import Sharding

from .device import Device, find_default_device, is_abstract

Placement: TypeAlias = Any  # a jax.Device, a Sharding, or None: JAX does not publish the type of its devices


def find_target(device: Any) -> Placement:
    """Returns where values are to be, in JAX's terms.

    Args:
        device: a Device or its spelling, the index of a GPU, a ``jax.Device``, a ``Sharding``, or None.

    Returns:
        A ``jax.Device`` or ``Sharding``; None for None and for the abstract device, so that
        ``device=x.device`` works under a trace.

    Raises:
        DeviceError: there is no such device.
    """
    if device is None or isinstance(device, (jax.Device, Sharding)):
        return device
    found = Device("cuda", device) if isinstance(device, int) else Device(device)
    return None if found.type == "abstract" else found.to_jax()


def find_placement(device: Any) -> Placement:
    """Returns where new values are to be put, or None where JAX puts them there by itself.

    Args:
        device: as for :func:`find_target`.

    Raises:
        DeviceError: there is no such device.
    """
    target = find_target(device)
    if target is None or isinstance(device, (jax.Device, Sharding)) or target != find_default_device():
        return target
    is_free = isinstance(device, (str, Device)) and Device(device).index is None
    return None if is_free or len(jax.local_devices(backend=target.platform)) == 1 else target


def placement_like(array: Any, device: Any) -> Placement:
    """Returns where a tensor like an array goes: where somebody says, else where the array is.

    Args:
        array: an array or tracer; if it is bound to no device, what is like it is not either.
        device: as for :func:`find_target`.

    Raises:
        DeviceError: there is no such device.
    """
    if device is not None or is_abstract(array):
        return find_placement(device)
    return None if not array.committed and is_on_default_device(array) else array.sharding


def is_on_default_device(array: Any) -> bool:
    """Returns whether JAX puts new values where this array is; one without values is everywhere."""
    return is_abstract(array) or array.devices() == {find_default_device()}
