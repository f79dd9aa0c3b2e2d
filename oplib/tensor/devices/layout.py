"""Layouts: which items of an array each device holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import jax
from jax.core import Tracer
from jax.custom_derivatives import linear_call
from jax.sharding import AxisType, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from oplib.errors import ArgumentValueError, describe

from .device import is_abstract

Space: Any = jax.memory.Space  # jax.memory is no module
_HOST_KINDS = ("pinned_host", "unpinned_host")
_SINGLE = SingleDeviceSharding, type(None)
_get_sharding = attrgetter("sharding")


class DeviceLayout:
    """The sharding of arrays with a number of dimensions, compared by the items that each device holds.

    So ``P("data", None)`` and ``P("data")`` are equal, and an axis of length 1 means nothing.

    Args:
        sharding: the sharding.
        ndim: the number of dimensions.
    """

    __slots__ = ("_hash", "ndim", "sharding")

    def __init__(self, sharding: Sharding, ndim: int) -> None:
        self.sharding = sharding
        self.ndim = ndim
        self._hash = hash((frozenset(sharding.device_set), sharding.memory_kind, ndim))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceLayout):
            return NotImplemented
        return self.ndim == other.ndim and is_alike(self.sharding, other.sharding, self.ndim)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return describe_sharding(self.sharding)


read_layout = lru_cache(maxsize=1024)(DeviceLayout)


def is_alike(one: Any, other: Any, ndim: int) -> bool:
    """Whether two shardings place every item of arrays with a number of dimensions alike."""
    return one is other or one == other or one.is_equivalent_to(other, ndim)


def is_spread(value: Any) -> bool:
    """Tells whether a value is a concrete array of which several devices hold parts."""
    return (
        isinstance(value, jax.Array)
        and not isinstance(value, Tracer)
        and value.committed  # true of all of them, and read faster than the devices
        and len(value.sharding.device_set) > 1
    )


def find_spread(array: Any) -> Sharding | None:
    """Returns the sharding of an array of which several devices hold parts; None for any other.

    A ``jax.ShapeDtypeStruct`` may have the sharding of a mesh that is not there.
    """
    if isinstance(array, jax.ShapeDtypeStruct):
        sharding = array.sharding
        return sharding if isinstance(sharding, NamedSharding) and sharding.mesh.size > 1 else None
    return array.sharding if is_spread(array) else None


def find_on_mesh(array: Any) -> Sharding | None:
    """Returns what :func:`find_spread` does, and the sharding of an array on a mesh of one device."""
    sharding = find_spread(array)
    if sharding is not None or is_abstract(array):
        return sharding
    return array.sharding if isinstance(array.sharding, NamedSharding) else None


def have_no_layout(arrays: Sequence[Any]) -> bool:
    """Whether all arrays are concrete, and none is on several devices or on a mesh."""
    if any(issubclass(kind, Tracer) for kind in set(map(type, arrays))):
        return False
    return set(map(type, map(_get_sharding, arrays))) <= {SingleDeviceSharding}


def are_single(*arrays: Any) -> bool:
    """As :func:`have_no_layout`, faster for few arrays; those of numpy have no layout either."""
    for array in arrays:
        if isinstance(array, Tracer) or getattr(array, "sharding", None).__class__ not in _SINGLE:
            return False
    return True


def replicate_on_mesh(sharding: Sharding) -> Sharding | None:
    """Returns the sharding with which each device of a mesh holds all items; None where there is no mesh."""
    return NamedSharding(sharding.mesh, PartitionSpec()) if isinstance(sharding, NamedSharding) else None


def find_explicit_mesh(arrays: Iterable[Any]) -> Any:
    """Returns the mesh on which types carry the sharding; None if XLA finds the sharding."""
    meshes = (getattr(getattr(jax.typeof(array), "sharding", None), "mesh", None) for array in arrays)
    return next((mesh for mesh in meshes if mesh is not None and AxisType.Explicit in mesh.axis_types), None)


def is_explicit(sharding: Any) -> bool:
    """Whether types of arrays carry this sharding."""
    return AxisType.Explicit in getattr(getattr(sharding, "mesh", None), "axis_types", ())


def find_single(array: Any) -> Sharding | None:
    """Returns how an array lies on an explicit mesh of one device, but for names of axes; else None.

    The names mean nothing there, but JAX does not gather along a dimension that has one.
    """
    sharding = jax.typeof(array).sharding
    if not is_explicit(sharding) or sharding.mesh.size > 1:
        return None
    return NamedSharding(sharding.mesh, PartitionSpec())


def drop_names(array: Any) -> Any:
    """Returns an array without names of axes in its type, where the mesh has one device."""
    single = find_single(array)
    return array if single is None else jax.sharding.reshard(array, single)


def constrain(array: Any, sharding: Any) -> Any:
    """Lays a traced array out by a sharding, in its kind of memory. On an explicit mesh its type says so."""
    target = Space.Host if sharding.memory_kind in _HOST_KINDS else Space.Device
    if target is Space.Host:
        sharding = sharding.with_memory_kind(None)
    array = move_to_space(array, Space.Device)
    if is_explicit(sharding):
        array = jax.sharding.reshard(array, sharding)
    else:
        array = jax.lax.with_sharding_constraint(array, sharding)
    return move_to_space(array, target)


def find_space(array: Any) -> Any:
    """Returns the space of the memory of an array or a type, which is part of the type."""
    return getattr(jax.typeof(array) if isinstance(array, jax.Array) else array, "memory_space", Space.Device)


def move_to_space(array: Any, space: Any) -> Any:
    """Returns an array in the memory of devices or of their host. The gradient goes back there."""
    source = find_space(array)
    if source == space:
        return array
    if not isinstance(array, Tracer):
        return jax.device_put(array, space)
    try:  # the transpose of JAX's device_put does not know the source on a mesh without explicit axes
        return linear_call(
            lambda _, moved: jax.device_put(moved, space),
            lambda _, grad: jax.device_put(grad, source),
            (),
            array,
        )
    except NotImplementedError:  # under vmap
        return jax.device_put(array, space)


def check_shape(op: str, array: Any, sharding: Sharding) -> None:
    """Raises where a mesh does not divide a dimension of an array.

    Raises:
        ArgumentValueError: it does not, or the sharding names more dimensions than there are.
    """
    if not isinstance(sharding, NamedSharding):
        return
    if len(sharding.spec) > len(array.shape):
        raise ArgumentValueError(
            f"{op}: the sharding names {len(sharding.spec)} dimensions. Got {describe(array)} for "
            f"{describe_sharding(sharding)}. Name at most {len(array.shape)}."
        )
    for dim, names in enumerate(sharding.spec):
        axes = names if isinstance(names, tuple) else (names,)
        count = math.prod([sharding.mesh.shape.get(name, 1) for name in axes])
        if array.shape[dim] % count:
            raise ArgumentValueError(
                f"{op}: the mesh does not divide dimension {dim}. Got {describe(array)} for "
                f"{describe_sharding(sharding)}; {array.shape[dim]} is no multiple of {count}. Spread "
                "another dimension, or pad this one."
            )


def place_like(array: Any, other: Any) -> Any:
    """Returns an array to write in place of another, in the layout of that one if several devices hold it.

    An array of another shape stays as it is, and so does one without values.
    """
    if isinstance(array, Tracer) or not is_spread(other) or array.shape != other.shape:
        return array
    is_there = is_alike(array.sharding, other.sharding, array.ndim)
    return array if is_there else jax.device_put(array, other.sharding)


def describe_devices(devices: Iterable[Any]) -> str:
    """Shows devices in errors, by the first and the last if there are many. A tuple keeps its order."""
    ordered = devices if isinstance(devices, tuple) else sorted(devices, key=lambda device: device.id)
    names = list(map(str, ordered))
    return f"{names[0]} to {names[-1]} ({len(names)} devices)" if len(names) > 4 else ", ".join(names)


def describe_sharding(sharding: Any) -> str:
    """Returns how errors show a sharding."""
    if isinstance(sharding, NamedSharding):
        axes = ", ".join([f"{name}={size}" for name, size in sharding.mesh.shape.items()])
        spec = str(sharding.spec).removeprefix("PartitionSpec")
        return f"{spec} over ({axes})"
    count = len(sharding.device_set)
    return f"{next(iter(sharding.device_set))}" if count == 1 else str(sharding)
