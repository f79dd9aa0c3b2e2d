"""The functions of networks under torch's names; each is the op of its name, some also with ``inplace``.

Example:
    >>> import oplib
    >>> import oplib.nn.functional as F
    >>> F.relu(oplib.tensor([-1.0, 2.0]))
    tensor([0., 2.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.functions.families import ROWS
from oplib.builtin.functions.names import name_function
from oplib.builtin.functions.registry import COMPOSED, FUNCTIONS, IN_PLACE, NETWORKS_IN_PLACE, UPCALLS

from . import activations
from .activations import *  # noqa: F403  the names that its own list has

_OPS = {row.name_in_networks: row.op for row in ROWS if row.name_in_networks}
_COMPOSED = (name for name, one in COMPOSED.items() if one.in_networks)
_PLAIN = [name for name in (*activations.__all__, *_COMPOSED, *_OPS) if name in FUNCTIONS]
_OTHERWISE_NAMED = {
    name: op for name, op in _OPS.items() if name != op
}  # as a method unfold is something else
__all__ = sorted({*_OTHERWISE_NAMED, *_PLAIN, *NETWORKS_IN_PLACE})  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables


def __getattr__(name: str) -> Callable[..., Any]:
    """Finds the function of an op when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OTHERWISE_NAMED:
        function = name_function(UPCALLS[_OTHERWISE_NAMED[name]], name)
        function.__module__ = __name__
    else:
        function = IN_PLACE[name] if name in NETWORKS_IN_PLACE else FUNCTIONS[name]
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
