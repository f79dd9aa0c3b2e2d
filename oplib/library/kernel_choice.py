"""Which kernel of an op runs: by the platform of its arrays, or of its ``device`` argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from oplib.errors import MissingRuleError

from .record import Record

_SLOTS = {"cuda": "gpu", "rocm": "gpu"}


def choose_kernel(record: Record, arrays: Sequence[Any], device: Any = None) -> Callable[..., Any]:
    """Returns the kernel for concrete arrays: that of their platform before the default one.

    Args:
        record: of the op.
        arrays: of the call; the first concrete one tells the platform.
        device: the call's ``device`` argument, which tells it for a factory.

    Raises:
        MissingRuleError: there is none for this platform.
    """
    kernels = record.kernels
    only = kernels.get("default") or kernels.get("composite")
    if only is not None and len(kernels) == 1:
        return only
    platform = _platform_of(arrays, device)
    kernel = kernels.get(platform) or only
    if kernel is None:
        raise missing_kernel(record, platform)
    return kernel


def _platform_of(arrays: Sequence[Any], device: Any) -> str:
    if device is not None:
        platform = str(getattr(device, "type", device)).partition(":")[0]
        return _SLOTS.get(platform, platform)
    for array in arrays:
        if isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer):
            platform = next(iter(array.devices())).platform
            return _SLOTS.get(platform, platform)
    platform = jax.default_backend()
    return _SLOTS.get(platform, platform)


def missing_kernel(record: Record, platform: str | None) -> MissingRuleError:
    """The error for a platform without a kernel."""
    where = "any platform" if platform is None else f"platform '{platform}'"
    have = ", ".join(record.kernels) or "none"
    return MissingRuleError(
        f"{record.name}: Could not run: the op does not have a kernel registered for {where}. Registered: "
        f"{have}. Register one with oplib.library.register_kernel or oplib.library.impl."
    )
