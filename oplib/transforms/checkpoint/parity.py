"""Names of ``torch.utils.checkpoint`` that have no behaviour of their own here.

There, every device has a random state of its own, to be kept and put back. Here there is one Generator for
all devices, which :func:`checkpoint` keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DefaultDeviceType:
    """The type of device that torch falls back on; kept, and without effect.

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
        """Returns the type that was set last."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Returns no devices and no states: the devices of the arguments have none."""
    del args
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None
) -> None:
    """Has nothing to set."""
    del devices, states, device_type
