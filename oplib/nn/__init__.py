"""The paths of ``torch.nn`` that there are here; what they carry stands on other floors."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import functional

if _TYPE_CHECKING:
    from . import utils

__all__ = ["functional", "utils"]


def __getattr__(name: str) -> _Any:
    """Imports what few need when it is asked for."""
    if name == "utils":
        return _import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
