"""Device types as users write them, and the slots in which kernels for them stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oplib.errors import RegistrationError, RegistrationValueError
from oplib.library.schema import FunctionSchema

from .contribution import KernelSlot

_DEVICES: dict[str, KernelSlot] = {
    "cpu": "cpu",
    "gpu": "gpu",
    "cuda": "cuda",
    "rocm": "rocm",
    "tpu": "tpu",
    "default": "default",
}
_FAMILIES: dict[str, tuple[str, ...]] = {"gpu": ("cuda", "rocm")}
_KEYS: dict[str, KernelSlot] = {
    "": "composite",
    "CPU": "cpu",
    "CUDA": "cuda",
    "HIP": "rocm",
    "GPU": "gpu",
    "TPU": "tpu",
    "CompositeExplicitAutograd": "default",
    "CompositeImplicitAutograd": "composite",
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
    """Returns the platform of a ``jax.Device`` as lowering spells it: GPUs go by their maker."""
    if device.platform != "gpu":
        return device.platform
    return "rocm" if "rocm" in str(device.client.platform_version).lower() else "cuda"


def list_platforms(slot: str) -> tuple[str, ...]:
    """Returns the platforms that a slot stands for, as ``jax.lax.platform_dependent`` spells them."""
    return _FAMILIES.get(slot, (slot,))


def list_slots(platform: str) -> tuple[str, ...]:
    """Returns the slots that may hold the kernel for a platform, the most specific first."""
    families = [family for family, members in _FAMILIES.items() if platform in members]
    return (platform, *families, "default")


def find_device_place(schema: FunctionSchema) -> int | None:
    """Returns the place of the argument that chooses the kernel of a factory; None where tensors choose."""
    if any(argument.has_tensor for argument in schema.arguments):
        return None
    typed = (str(argument.type).rstrip("?") == "Device" for argument in schema.arguments)
    pairs = zip(schema.arguments, typed, strict=True)
    return next((place for place, (one, fits) in enumerate(pairs) if fits and one.name == "device"), None)


def find_slot(device: str, *, subject: str) -> KernelSlot:
    """Returns the slot for a device type, or for the name of a dispatch key.

    Args:
        device: ``cpu``, ``cuda``, ``rocm``, ``gpu`` (both of these), ``tpu`` or ``default``; or one of
            torch's key names for these, where the empty one is a composite kernel, which autograd looks into.
        subject: the function that asks, for the error.

    Raises:
        RegistrationError: there is no such device.
    """
    slot = _DEVICES.get(device) or _KEYS.get(device)
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


def find_slots(devices: DeviceTypes, *, subject: str) -> tuple[KernelSlot, ...]:
    """Returns the slots for device types, each once; None stands for all devices.

    Raises:
        RegistrationError: there is no such device.
    """
    if devices is None:
        return ("default",)
    names = (devices,) if isinstance(devices, str) else tuple(devices)
    return tuple(dict.fromkeys(find_slot(name, subject=subject) for name in names))


def find_device_slot(device: str, *, subject: str) -> KernelSlot:
    """As :func:`find_slot`, for a question about what there is and not for a registration.

    Raises:
        RegistrationValueError: there is no such device.
    """
    try:
        return find_slot(device, subject=subject)
    except RegistrationError as error:
        raise RegistrationValueError(str(error)) from error
