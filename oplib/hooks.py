"""Handles of registered hooks."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any, Self


class RemovableHandle:
    """Takes a hook out of its dictionary again; also a context manager that does so on leaving.

    The dictionary is held weakly: a handle keeps neither tensor nor node alive. Removing twice is harmless.

    Attributes:
        id: the hook's key; unique in the process, also for handles that were unpickled.
    """

    next_id: int = 0

    def __init__(self, hooks_dict: OrderedDict[int, Any]) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Takes the hook away; does nothing if it is gone already."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.hooks_dict_ref(), self.id)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id = state
        self.hooks_dict_ref = weakref.ref(OrderedDict[int, Any]() if hooks is None else hooks)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()
