"""Handles that remove registered hooks."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any, Self


class RemovableHandle:
    """Removes a hook from its dictionary; as a context manager it does so at the end of the block.

    The handle refers to the dictionary weakly, so it keeps neither tensor nor node alive.

    Attributes:
        id: the key of the hook, unique in the process even for unpickled handles.
    """

    next_id: int = 0

    def __init__(self, hooks_dict: OrderedDict[int, Any]) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Removes the hook; a second call has no effect."""
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
