"""The functions of networks under torch's names; each calls the op of its name, some also with ``inplace``.

Example:
    >>> import oplib
    >>> import oplib.nn.functional as F
    >>> F.relu(oplib.tensor([-1.0, 2.0]))
    tensor([0., 2.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.functions.registry import NETWORKS

__all__ = sorted(NETWORKS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables


def __getattr__(name: str) -> Callable[..., Any]:
    """Returns the function of an op, which is made at its first use."""
    if name not in NETWORKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = NETWORKS[name]
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
