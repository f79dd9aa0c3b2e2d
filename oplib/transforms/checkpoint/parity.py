"""Names of ``torch.utils.checkpoint`` that have no behaviour in oplib.

In torch every device has its own random state. In oplib one Generator serves all devices, and
:func:`checkpoint` preserves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DefaultDeviceType:
    """torch's fallback type of device. It is stored and has no effect.

    Example:
        >>> DefaultDeviceType.get_device_type()
        'cuda'
    """

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Sets the type."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Returns the type that was set."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Returns no devices and no states, because the devices of the arguments have none."""
    del args
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None
) -> None:
    """Does nothing."""
    del devices, states, device_type
