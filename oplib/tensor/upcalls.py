"""The only way up from the tensor floor: a table of functions, filled once by ``oplib/__init__.py``.

Tensor methods need the ops and the engine, which stand above them; importing these here would close a circle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class Upcalls:
    """Functions of higher floors by name: ops (``add``), ``run_backward``, ``refresh``."""

    def fill(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Enters functions under their names; a name can be entered again."""
        self.__dict__.update(functions)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(
            f"upcalls.{name}: no function of this name was entered. The tensor floor is used without the "
            f"floors above it, or there is no such op. Import oplib, not a floor of it."
        )


upcalls = Upcalls()
