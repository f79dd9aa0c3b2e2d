"""Linear algebra under torch's names: ``oplib.linalg.inv(x)`` is the op ``linalg_inv``.

Example:
    >>> import oplib
    >>> oplib.linalg.det(oplib.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.functions.registry import LINALG
from oplib.errors import LinAlgError as LinAlgError

_PREFIX = "linalg_"
__all__ = sorted(["LinAlgError", *(name.removeprefix(_PREFIX) for name in LINALG)])  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables


def __getattr__(name: str) -> Callable[..., Any]:
    """Returns the function of an op, which is made at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = LINALG[f"{_PREFIX}{name}"]
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
