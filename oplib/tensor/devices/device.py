"""Devices under torch's names. They are looked up among JAX's devices only when needed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import jax
from jax.core import Tracer

from oplib.errors import DeviceError, describe
from oplib.protocols import Values

_SPELLING = re.compile(r"([a-z][a-z_]*)(?::(0|[1-9]\d*))?")
_ALIASES = {"gpu": "cuda", "rocm": "cuda"}
jax_config: Any = jax.config  # its attributes are made at run time


JaxDevice: TypeAlias = Any  # JAX publishes ``jax.Device``, but not as a type


class Device:
    """A kind of device and, optionally, an index: ``oplib.device("cuda:1")``.

    Making one starts no backend. JAX looks the device up when a tensor moves there.

    Args:
        type: ``"cpu"``, ``"cuda"`` (or ``"gpu"``, the same), ``"tpu"``, or the name of another JAX platform,
            with the index after a colon or as the second argument; or a Device, or a ``jax.Device``.
        index: the index among this process's devices of the type; None for the default one.

    Attributes:
        type: the name of the platform; ``"abstract"`` for traced values.
        index: the index, or None.

    Raises:
        DeviceError: the text is not a device, or the index is given twice.

    Example:
        >>> Device("gpu:1")
        device(type='cuda', index=1)
        >>> Device("cpu") == Device("cpu:0")
        False
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None) -> None:  # noqa: A002  torch's name
        source = device_of(type) if isinstance(type, jax.Device) else type
        kind, own = (source.type, source.index) if isinstance(source, Device) else _parse(source)
        if index is not None and (own is not None or index < 0):
            raise DeviceError(
                f"device: an index is given once, and counts from 0. Got {source!r} and index={index}. "
                f'Write oplib.device("cuda", 1) or oplib.device("cuda:1").'
            )
        self.type = _ALIASES.get(kind, kind)
        self.index = own if index is None else index

    def to_jax(self) -> JaxDevice:
        """Returns the ``jax.Device``.

        Without an index it is JAX's default device, if of this type, or the first.

        Raises:
            DeviceError: the device does not exist, or is abstract.
        """
        devices = _local_devices(self.type)
        if self.index is None:
            default = find_default_device()
            return default if default in devices else devices[0]
        if self.index >= len(devices):
            raise DeviceError(
                f"device: {self} is not there. This process has {len(devices)} of type {self.type}, "
                f"counted from 0. Choose one of these."
            )
        return devices[self.index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Values:
        return Device, (self.type, self.index)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (")" if self.index is None else f", index={self.index})")


def _parse(spelling: object) -> tuple[str, int | None]:
    match = _SPELLING.fullmatch(spelling.lower()) if isinstance(spelling, str) else None
    if match is None:
        raise DeviceError(
            f"device: the argument is not a device. Got {describe(spelling)}. "
            f'Write "cpu", "cuda", "cuda:1", "tpu", or the name of another JAX platform. A layout is a '
            "Sharding: NamedSharding(mesh, spec)."
        )
    return match[1], None if match[2] is None else int(match[2])


ABSTRACT = Device("abstract")


def device_type_of(array: Any) -> str:
    """Returns the type of device that an array is on. Traced and numpy's arrays count as on JAX's default."""
    platform = jax.default_backend() if is_abstract(array) else next(iter(array.devices())).platform
    return _ALIASES.get(platform, platform)


def find_default_device() -> JaxDevice:
    """Returns the ``jax.Device`` where JAX puts new values by default."""
    default = jax_config.jax_default_device
    return default if isinstance(default, jax.Device) else jax.local_devices(backend=default)[0]


def _local_devices(kind: str) -> list[JaxDevice]:
    try:
        return jax.local_devices(backend="gpu" if kind == "cuda" else kind)
    except RuntimeError as error:
        there = ", ".join(sorted({str(device_of(device)) for device in jax.local_devices()}))
        raise DeviceError(
            f"device: JAX has no devices of type {kind!r} here. It has {there}. "
            f"Choose one of these, or install JAX for {kind}."
        ) from (None if str(error).startswith("Unknown backend") else error)


@lru_cache(maxsize=1024)
def device_of(device: JaxDevice) -> Device:
    """Returns oplib's name of a ``jax.Device``: ``cpu`` for the first CPU, ``cuda:1``, ``cpu:3``.

    Further CPU devices exist only if JAX was configured for several, so the first one has torch's name of the
    CPU. Devices of other processes have their global id as index.
    """
    kind = _ALIASES.get(device.platform, device.platform)
    local = jax.local_devices(backend=device.platform)
    index = local.index(device) if device in local else device.id
    return Device(kind, None if kind == "cpu" and index == 0 else index)


def find_common_device(arrays: Iterable[Any]) -> Device | None:
    """Returns the device of arrays; None where they are on several."""
    devices = {device for array in arrays if not is_abstract(array) for device in array.sharding.device_set}
    return device_of(devices.pop()) if len(devices) == 1 else None


def is_abstract(array: Any) -> bool:
    """Returns whether an array has no values: tracers, and the results of ``jax.eval_shape``, have none."""
    return isinstance(array, Tracer) or not isinstance(array, jax.Array)


def device_of_array(array: Any) -> Device:
    """Returns the only device of an array, the abstract one if it has no values.

    Several raise DeviceError.
    """
    if is_abstract(array):
        return ABSTRACT
    devices = array.devices()
    if len(devices) == 1:
        return device_of(next(iter(devices)))
    raise DeviceError(
        f"device: the tensor is on {len(devices)} devices. Got {describe(array)} with {array.sharding}. "
        f"Use tensor.sharding."
    )
