"""The built-in ops, and the way to every op: ``oplib.ops.namespace.name.overload``.

The built-in ops stand in tables, one module for each family, and are registered in the namespace ``oplib`` as
any user's. All other modules here have an underscore, since every other attribute is a namespace of ops.
"""

from __future__ import annotations

from typing import Any

from oplib.library.namespace import ops as _namespaces

from . import _functions as _functions  # registers the built-in ops

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    return getattr(_namespaces, name)


def __dir__() -> list[str]:
    return [*globals(), *_namespaces]
