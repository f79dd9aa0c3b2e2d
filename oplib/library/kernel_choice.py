"""Which kernel of an op runs: by the platform of its arrays, or of its ``device`` argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.core import Tracer

from oplib.errors import MissingRuleError
from oplib.tensor import Device

from .platforms import find_device_place, name_slot
from .record import Function, Record


def choose_kernel(record: Record, arrays: Sequence[Any], device: Device | None = None) -> Function:
    """Returns the kernel for concrete arrays: that of their platform before the default one.

    Args:
        record: of the op.
        arrays: of the call; the first concrete one tells the platform, unless the kernel runs on the host.
        device: the call's ``device`` argument, which tells it for a factory.

    Raises:
        MissingRuleError: there is none for this platform, or nothing tells the platform.
    """
    if record.sole_kernel is not None:
        return record.sole_kernel
    if needs_default(record, arrays):
        default = record.kernels.get("default")
        if default is None:
            raise _missing_tensors(record)
        return default
    slot = "cpu" if record.kind == "host" and device is None else _find_slot(arrays, device)
    kernel = record.kernels.get(slot) or record.kernels.get("default")
    if kernel is None:
        raise missing_kernel(record, slot)
    return kernel


def needs_default(record: Record, arrays: Sequence[Any]) -> bool:
    """Tells whether nothing in a call says on which device it runs."""
    return not arrays and find_device_place(record.schema) is None


def find_device(record: Record, values: Sequence[Any]) -> Device | None:
    """Returns the device that a call of a factory names; None where its tensors tell the device."""
    place = find_device_place(record.schema)
    return None if place is None else values[place]


def _find_slot(arrays: Sequence[Any], device: Device | None) -> str:
    if device is not None:
        return name_slot(device.type)
    for array in arrays:
        if isinstance(array, jax.Array) and not isinstance(array, Tracer):
            return name_slot(next(iter(array.devices())).platform)
    return name_slot(jax.default_backend())


def _missing_tensors(record: Record) -> MissingRuleError:
    have = ", ".join(record.kernels) or "none"
    return MissingRuleError(
        f"{record.name}: Could not run: there were no tensor arguments in the call that tell its device. "
        f"Kernels are registered for: {have}. Pass a tensor, or register a kernel for all devices "
        "(device_types=None)."
    )


def missing_kernel(record: Record, slot: str | None) -> MissingRuleError:
    """The error for a platform without a kernel, or for an op without any."""
    where = "any platform" if slot is None else f"platform '{slot}'"
    have = ", ".join(record.kernels) or "none"
    return MissingRuleError(
        f"{record.name}: Could not run: the op does not have a kernel registered for {where}. Registered: "
        f"{have}. Register one with oplib.library.register_kernel or oplib.library.impl."
    )
