"""Counts of the calls that generated code does not serve."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from oplib.library.dispatch.dispatcher import Dispatcher


def count_complete_calls(function: Callable[[], Any]) -> int:
    """Counts how many calls take the complete path."""
    counted: list[object] = []

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is Dispatcher.call.__code__:
            counted.append(frame)

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return len(counted)
