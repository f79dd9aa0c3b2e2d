"""Which kernel of an op runs: by the platform of its arrays, or of its ``device`` argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.core import Tracer

from oplib.errors import MissingRuleError

from .platforms import name_slot
from .record import Function, Record


def choose_kernel(record: Record, arrays: Sequence[Any], device: Any = None) -> Function:
    """Returns the kernel for concrete arrays: that of their platform before the default one.

    Args:
        record: of the op.
        arrays: of the call; the first concrete one tells the platform, unless the kernel runs on the host.
        device: the call's ``device`` argument, which tells it for a factory.

    Raises:
        MissingRuleError: there is none for this platform.
    """
    if record.sole_kernel is not None:
        return record.sole_kernel
    slot = "cpu" if record.kind == "host" else _find_slot(arrays, device)
    kernel = record.kernels.get(slot) or record.kernels.get("default")
    if kernel is None:
        raise missing_kernel(record, slot)
    return kernel


def _find_slot(arrays: Sequence[Any], device: Any) -> str:
    if device is not None:
        return name_slot(str(getattr(device, "type", device)).partition(":")[0])
    for array in arrays:
        if isinstance(array, jax.Array) and not isinstance(array, Tracer):
            return name_slot(next(iter(array.devices())).platform)
    return name_slot(jax.default_backend())


def missing_kernel(record: Record, slot: str | None) -> MissingRuleError:
    """The error for a platform without a kernel, or for an op without any."""
    where = "any platform" if slot is None else f"platform '{slot}'"
    have = ", ".join(record.kernels) or "none"
    return MissingRuleError(
        f"{record.name}: Could not run: the op does not have a kernel registered for {where}. Registered: "
        f"{have}. Register one with oplib.library.register_kernel or oplib.library.impl."
    )
