"""The public path of every op: ``oplib.ops.namespace.name.overload``.

The built-in ops are registered in the namespace ``oplib``, like the ops of users. Their tables, and the
functions that are made from them, are in ``oplib/builtin/``.
"""

from __future__ import annotations

from typing import Any

from .library.op_objects.namespace import ops as _namespaces

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    return getattr(_namespaces, name)


def __dir__() -> list[str]:
    return list(_namespaces)
