"""The settings of autocast in a thread: its device types and their dtypes, and the block that sets them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax

from oplib.config import config
from oplib.errors import ArgumentTypeError, ArgumentValueError
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor.dtypes import names as dtypes

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {"cpu": dtypes.bfloat16, "cuda": dtypes.float16, "tpu": dtypes.bfloat16}
)
LOW = (dtypes.bfloat16, dtypes.float16)
_ALIASES = {"gpu": "cuda"}

# Autocast is a part of the key of ``jax.jit`` through this context. A new context makes JAX compile all
# functions anew, so it is made once, before the first call.
_JAX_CONTEXT = jax.make_user_context()


class Settings(NamedTuple):
    """The settings of a thread. They are a part of the keys of compiled code, so they are compared by value.

    Attributes:
        enabled: the device types for which autocast is on, sorted.
        dtypes: pairs of a device type and its dtype, where it is not the default; sorted.
    """

    enabled: tuple[str, ...] = ()
    dtypes: tuple[tuple[str, Any], ...] = ()

    def dtype_of(self, device_type: str) -> Any:
        """Returns the dtype of ops that run in low precision on a device type."""
        return dict(self.dtypes).get(device_type, DEFAULTS[device_type])

    def with_device(self, device_type: str, dtype: Any, *, enabled: bool) -> Settings:
        """Returns settings that are others for one device type."""
        chosen = {**dict(self.dtypes), device_type: dtype}
        others = {name for name in self.enabled if name != device_type}
        return Settings(
            tuple(sorted({*others, device_type} if enabled else others)),
            tuple(sorted((name, kept) for name, kept in chosen.items() if kept != DEFAULTS[name])),
        )

    @property
    def key(self) -> Values | None:
        """The part of the settings that decides the casts, for the key of ``jax.jit``; None if it is off."""
        return tuple((name, str(self.dtype_of(name))) for name in self.enabled) or None


def read_settings() -> Settings:
    """Returns the settings of this thread."""
    return modes.autocast or Settings()


def find_device_type(device_type: object, *, subject: str) -> str:
    """Returns a device type that supports autocast, by its name or alias.

    Raises:
        ArgumentTypeError: it is no text.
        ArgumentValueError: it does not support autocast.
    """
    if not isinstance(device_type, str):
        raise ArgumentTypeError(
            f"{subject}: argument 'device_type' must be str. Got {type(device_type).__name__}. Write the "
            'type of a device, such as "cpu".'
        )
    name = _ALIASES.get(device_type, device_type)
    if name not in DEFAULTS:
        raise ArgumentValueError(
            f"{subject}: device type {device_type!r} does not support autocast. Expected one of "
            f"{', '.join(DEFAULTS)}. Name one of them."
        )
    return name


class AutocastScope:
    """Sets the settings of autocast of this thread in a block."""

    __slots__ = ("_before", "_context", "_is_on", "_settings", "_state")

    def __init__(self, settings: Settings | None) -> None:
        self._settings = settings
        self._is_on = settings is not None and bool(settings.enabled)
        self._before: Any = None
        self._context: Any = None

    def __enter__(self) -> None:
        self._state = state = modes.state
        self._before = before = state.autocast
        if before is not None or self._settings is not None:
            self._context = _JAX_CONTEXT(None if self._settings is None else self._settings.key)
            self._context.__enter__()
        config.count_autocast(self._is_on)
        state.autocast = self._settings
        state.watchers += self._is_on  # the fast path casts nothing

    def __exit__(self, *exc_info: object) -> None:
        state = self._state
        state.autocast = self._before
        state.watchers -= self._is_on
        config.count_autocast(-self._is_on)
        if self._context is not None:
            self._context.__exit__(*exc_info)
            self._context = None
