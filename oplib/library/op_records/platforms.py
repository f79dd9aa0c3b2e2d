"""Device types as users write them, and the kernel slots that they select."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oplib.errors import RegistrationError
from oplib.library.schema import FunctionSchema
from oplib.protocols import AnyFunction

from .contribution import AUTOCAST_SLOTS, KERNEL_SLOTS, AutocastSlot, KernelSlot

_FAMILIES: dict[str, tuple[str, ...]] = {"gpu": ("cuda", "rocm")}
_SLOTS: dict[str, KernelSlot] = {
    **{slot: slot for slot in KERNEL_SLOTS if slot != "composite"},
    "": "composite",
    "CPU": "cpu",
    "CUDA": "cuda",
    "HIP": "rocm",
    "GPU": "gpu",
    "TPU": "tpu",
    "CompositeExplicitAutograd": "default",
    "CompositeImplicitAutograd": "composite",
}
_AUTOCAST_KEYS: dict[str, AutocastSlot] = {
    f"Autocast{name.upper()}": slot for name, slot in AUTOCAST_SLOTS.items()
}
_OTHER_KEYS = {
    "Meta": "register_fake",
    "Autograd": "register_autograd",
    "AutogradCPU": "register_autograd",
    "AutogradCUDA": "register_autograd",
    "FuncTorchBatched": "register_vmap",
}

DeviceTypes = str | Iterable[str] | None


def name_platform(device: Any) -> str:
    """Returns the platform of a ``jax.Device`` as lowering spells it; a GPU is named after its maker."""
    if device.platform != "gpu":
        return device.platform
    return "rocm" if "rocm" in str(device.client.platform_version).lower() else "cuda"


def list_platforms(slot: str) -> tuple[str, ...]:
    """Returns the platforms of a slot, as ``jax.lax.platform_dependent`` spells them."""
    return _FAMILIES.get(slot, (slot,))


def list_slots(platform: str) -> tuple[str, ...]:
    """Returns the slots that may hold the kernel for a platform, the most specific slot first."""
    families = [family for family, members in _FAMILIES.items() if platform in members]
    return (platform, *families, "default")


def find_device_index(schema: FunctionSchema) -> int | None:
    """Returns the position of the argument that chooses a factory's kernel; None if tensors choose it."""
    if any(argument.has_tensor for argument in schema.arguments):
        return None
    return next(
        (
            index
            for index, argument in enumerate(schema.arguments)
            if argument.name == "device" and str(argument.type).rstrip("?") == "Device"
        ),
        None,
    )


def find_slot(device: str, *, subject: str) -> KernelSlot:
    """Returns the slot for a device type, or for the name of a dispatch key.

    Args:
        device: ``cpu``, ``cuda``, ``rocm``, ``gpu`` (both of these), ``tpu`` or ``default``; or torch's name
            of a dispatch key for one of these. The empty name is a composite kernel, which autograd looks
            into.
        subject: the calling function, for the error.

    Raises:
        RegistrationError: the device type does not exist.
    """
    slot = _SLOTS.get(device)
    if slot is None:
        rule = _OTHER_KEYS.get(device)
        cure = (
            f"Use {rule} for such a rule." if rule else "Name a platform of JAX, or default for all of them."
        )
        raise RegistrationError(
            f"{subject}: there is no device type or dispatch key {device!r}. Expected one of cpu, gpu, cuda, "
            f'rocm, tpu, "default". {cure}'
        )
    return slot


def find_key(name: str, *, subject: str) -> KernelSlot | AutocastSlot:
    """As :func:`find_slot`, and also reads ``AutocastCPU`` and ``AutocastCUDA``."""
    return _AUTOCAST_KEYS.get(name) or find_slot(name, subject=subject)


def find_slots(devices: DeviceTypes, *, subject: str, find: AnyFunction = find_slot) -> Any:
    """Returns the slots for device types, without repetition; None means all devices.

    Unknown ones raise RegistrationError. ``find`` reads one of them.
    """
    if devices is None:
        return ("default",)
    names = (devices,) if isinstance(devices, str) else tuple(devices)
    return tuple(dict.fromkeys(find(name, subject=subject) for name in names))
