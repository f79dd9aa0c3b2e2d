"""The choice of an op's kernel: by the platform of its arrays, or of its ``device`` argument.

A kernel for one platform (``cuda``) has priority over its family (``gpu``), which has priority over the
default.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax.core import Tracer

from oplib.errors import MissingRuleError
from oplib.library.op_records.platforms import find_device_index, list_platforms, list_slots, name_platform
from oplib.library.op_records.record import Function, Record
from oplib.tensor import Device
from oplib.tensor.devices.device import find_default_device, is_abstract


def choose_kernel(record: Record, arrays: Sequence[Any], device: Device | None = None) -> Function:
    """Returns the kernel for concrete arrays: that of their platform, otherwise the default kernel.

    Args:
        record: the record of the op.
        arrays: the arrays of the call; the first concrete one has the platform, unless the kernel runs on the
            host.
        device: the ``device`` argument of the call, which has the platform of a factory.

    Raises:
        MissingRuleError: there is no kernel for the platform, or the platform is unknown.
    """
    if record.sole_kernel is not None:
        return record.sole_kernel
    if needs_default(record, arrays):
        default = record.kernels.get("default")
        if default is None:
            raise _missing_tensors(record)
        return default
    platform = "cpu" if record.kind == "host" and device is None else _find_platform(arrays, device)
    kernel = find_kernel(record, platform)
    if kernel is None:
        raise missing_kernel(record, platform)
    return kernel


def require_kernel(record: Record, arrays: Sequence[Any], device: Device | None = None) -> None:
    """Raises MissingRuleError if a call has no kernel.

    Under a trace lowering checks it, which knows the platform.
    """
    if record.sole_kernel is not None:
        return
    if record.kernels and record.kind != "host" and _has_only_tracers(arrays):
        return
    choose_kernel(record, arrays, device)


def require_kernels(record: Record, platforms: Iterable[str], *, traced: Sequence[str]) -> None:
    """Raises if a call is lowered for a platform without a kernel.

    Args:
        record: the record of the op.
        platforms: the platforms of the lowering; several in an export.
        traced: the slots that had a kernel when the call was traced.

    Raises:
        MissingRuleError: a platform has no kernel; the text names the platforms that have one.
    """
    if "default" in traced or record.kind == "host":
        return
    for platform in platforms:
        if find_kernel(record, platform) is None:
            raise missing_kernel(record, platform)
        if not set(list_slots(platform)) & set(traced):
            raise MissingRuleError(
                f"{record.name}: Could not run: the kernel for platform '{platform}' was registered after "
                f"the function that calls the op was traced. Then it had kernels for: {', '.join(traced)}. "
                "Call oplib.library.refresh(), which makes JAX trace anew."
            )


def find_kernel(record: Record, platform: str) -> Function | None:
    """Returns the kernel for a platform, the most specific one that is registered."""
    return next((record.kernels[slot] for slot in list_slots(platform) if slot in record.kernels), None)


def find_platform_kernels(record: Record) -> dict[str, Function]:
    """Returns the kernels for specific platforms, by platform."""
    named = [platform for slot in record.kernels if slot != "default" for platform in list_platforms(slot)]
    kernels = {platform: find_kernel(record, platform) for platform in named}
    return {platform: kernel for platform, kernel in kernels.items() if kernel is not None}


def needs_default(record: Record, arrays: Sequence[Any]) -> bool:
    """Tells whether no value in a call decides its device."""
    return not arrays and find_device_index(record.schema) is None


def find_device(record: Record, values: Sequence[Any]) -> Device | None:
    """Returns the device that a call of a factory names; None if its tensors decide the device."""
    index = find_device_index(record.schema)
    return None if index is None else values[index]


def _find_platform(arrays: Sequence[Any], device: Device | None) -> str:
    if device is not None:
        return _name_type(device)
    for array in arrays:
        if not is_abstract(array):
            return name_platform(next(iter(array.devices())))
    return name_platform(find_default_device())


def _name_type(device: Device) -> str:
    """Returns the platform of a ``Device``; its type is ``cuda`` for every GPU, so the machine is asked."""
    if device.type != "cuda":
        return device.type
    try:
        return name_platform(jax.local_devices(backend="gpu")[0])
    except RuntimeError:  # this machine has no such device
        return device.type


def _has_only_tracers(arrays: Sequence[Any]) -> bool:
    """Tells whether there are tracers, and no concrete array beside them that has a platform."""
    is_tracer = [isinstance(array, Tracer) for array in arrays if isinstance(array, jax.Array)]
    return bool(is_tracer) and all(is_tracer)


def _missing_tensors(record: Record) -> MissingRuleError:
    have = ", ".join(record.kernels) or "none"
    return MissingRuleError(
        f"{record.name}: Could not run: there were no tensor arguments in the call that tell its device. "
        f"Kernels are registered for: {have}. Pass a tensor, or register a kernel for all devices "
        "(device_types=None)."
    )


def missing_kernel(record: Record, platform: str) -> MissingRuleError:
    """Returns the error for a platform without a kernel."""
    have = ", ".join(record.kernels) or "none"
    return MissingRuleError(
        f"{record.name}: Could not run: the op does not have a kernel registered for platform '{platform}'. "
        f"Registered: {have}. Register one with oplib.library.register_kernel or oplib.library.impl."
    )
