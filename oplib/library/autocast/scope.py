"""A block with given settings of autocast: what regions, cast calls and repeated checkpoints enter."""

from __future__ import annotations

from typing import Any

from oplib.config import config
from oplib.modes import modes

from .settings import Settings, find_jax_context


class AutocastScope:
    """Sets the settings of autocast of this thread in a block.

    Args:
        settings: the settings; None for a thread that has set nothing.
    """

    __slots__ = ("_before", "_context", "_is_on", "_settings")

    def __init__(self, settings: Settings | None) -> None:
        self._settings = settings
        self._is_on = settings is not None and bool(settings.enabled)
        self._before: Any = None
        self._context: Any = None

    def __enter__(self) -> None:
        state = modes.state
        self._before = before = state.autocast
        if before is not None or self._settings is not None:
            self._context = find_jax_context()(None if self._settings is None else self._settings.key)
            self._context.__enter__()
        config.count_autocast(self._is_on)
        state.autocast = self._settings
        state.watchers += self._is_on  # the fast path casts nothing

    def __exit__(self, *exc_info: object) -> None:
        state = modes.state
        state.autocast = self._before
        state.watchers -= self._is_on
        config.count_autocast(-self._is_on)
        if self._context is not None:
            self._context.__exit__(*exc_info)
            self._context = None
