"""The paths of ``torch.nn`` that there are here; what they carry stands on other floors."""

import typing as _typing
from importlib import import_module as _import_module

from . import functional

if _typing.TYPE_CHECKING:
    from . import utils
else:  # a type checker then tells of a name that is not there

    def __getattr__(name: str) -> _typing.Any:
        """Imports what few need when it is asked for."""
        if name == "utils":
            return _import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["functional", "utils"]
