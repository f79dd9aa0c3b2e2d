"""The table of functions of higher floors that Tensor methods call. ``oplib/__init__.py`` fills it once.

Tensor methods need the ops and the engine of higher floors. Importing these here would close a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from oplib.protocols import AnyFunction


class Upcalls:
    """Functions of higher floors by name: ops (``add``), ``run_backward``, ``refresh``."""

    _made_when_asked: Mapping[str, AnyFunction] = MappingProxyType({})

    def fill(
        self,
        functions: Mapping[str, AnyFunction],
        made_when_asked: Mapping[str, AnyFunction] | None = None,
    ) -> None:
        """Enters functions under their names. A name may be entered again.

        Args:
            functions: functions that are entered now.
            made_when_asked: further functions. Each is looked up at its first use and then kept.
        """
        self.__dict__.update(functions)
        if made_when_asked is not None:
            self._made_when_asked = made_when_asked

    def __getattr__(self, name: str) -> AnyFunction:
        if name in self._made_when_asked:
            function = self.__dict__[name] = self._made_when_asked[name]
            return function
        raise AttributeError(
            f"upcalls.{name}: no function of this name was entered. The tensor floor is used without the "
            f"floors above it, or there is no such op. Import oplib, not a floor of it."
        )


upcalls = Upcalls()
