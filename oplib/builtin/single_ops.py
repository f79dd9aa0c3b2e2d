"""The functions of single ops as attributes, by which functions that are made of several call them.

An op is registered, and its function made, when it is first asked for, by tables that stand above all that is
made of ops (docs/adr/0001). Here a plain function of a module reaches them: ``ops.einsum(...)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from oplib.protocols import AnyFunction


class SingleOps:
    """The functions of single ops; one is looked up at its first use, and is an attribute from then on."""

    _functions: Mapping[str, AnyFunction] = MappingProxyType({})

    def take_from(self, functions: Mapping[str, AnyFunction]) -> None:
        """Sets where the functions come from, once the table of them has been put together."""
        self._functions = functions

    def __getattr__(self, name: str) -> AnyFunction:
        if name not in self._functions:
            raise AttributeError(f"there is no op {name!r} of oplib")
        return self.__dict__.setdefault(name, self._functions[name])


ops = SingleOps()
