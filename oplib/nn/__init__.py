"""The paths of ``torch.nn`` that oplib has; their contents are defined on lower floors."""

import typing as _typing
from importlib import import_module as _import_module

from oplib.torch_names import describe_missing as _describe_missing

from . import functional

if _typing.TYPE_CHECKING:
    from . import utils
else:  # a type checker then reports a name that does not exist

    def __getattr__(name: str) -> _typing.Any:
        """Imports rarely used modules at their first use."""
        if name == "utils":
            return _import_module(f"{__name__}.{name}")
        raise AttributeError(_describe_missing(__name__, name))


__all__ = ["functional", "utils"]
