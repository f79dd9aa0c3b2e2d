"""The devices of parameters and of the entries of a loaded state."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from oplib.errors import DeviceError, describe
from oplib.tensor.devices.layout import describe_devices, find_on_mesh, is_spread


def check_devices(params: Any) -> None:
    """Checks that one program can update all parameters.

    Args:
        params: the arrays of the parameters, in their containers. One that is on no device in particular
            moves to the mesh of the others.

    Raises:
        DeviceError: two of them are on different devices, or on meshes that order these differently.
    """
    places: dict[Any, tuple[Any, Any]] = {}
    for path, param in jax.tree_util.tree_leaves_with_path(params):
        if not isinstance(param, Tracer) and param.committed:
            mesh: Any = getattr(param.sharding, "mesh", None)
            devices = tuple(param.sharding.device_set)
            if len(devices) > 1 and mesh is not None:  # the set of devices has no order
                devices = tuple(mesh.devices.flat)
            places.setdefault(devices, (path, param))
    if len(places) > 1:
        first, second, *_ = [
            f"{jax.tree_util.keystr(path) or 'it'} {describe(param)} on {describe_devices(devices)}"
            for devices, (path, param) in places.items()
        ]
        raise DeviceError(
            f"Optimizer: the parameters are on different devices. Got {first}, and {second}. Move one of "
            "them with tensor.to(device), on a mesh tensor.to(sharding), or make an Optimizer for each."
        )


def bring_to_place(name: str, array: Any, other: Any) -> Any:
    """Returns an entry of a loaded state on the device of the array that it replaces.

    An entry for an array of a mesh stays as it is: the write lays it out.

    Args:
        name: the name of the entry, for errors.
        array: the entry.
        other: the array that it replaces.

    Raises:
        DeviceError: no process has all of the entry.
    """
    if is_spread(other) or not is_spread(array):
        on_mesh = None if is_spread(other) else find_on_mesh(other)
        return array if on_mesh is None else jax.device_put(array, on_mesh)
    if not (array.is_fully_addressable or array.is_fully_replicated):
        raise DeviceError(
            f"load_state_dict: no process has all of {name!r}, and the state of this optimizer is on one "
            f"device. Got {describe(array)} on {describe_devices(array.sharding.device_set)}. Place the "
            "parameters on the mesh before the Optimizer is made."
        )
    return jax.device_put(np.asarray(array), other.sharding if other.committed else None)
