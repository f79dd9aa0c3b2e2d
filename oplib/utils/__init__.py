"""The paths of ``torch.utils`` that oplib has; their contents are defined on other floors."""

import sys as _sys
import typing as _typing

import oplib.pytree as _pytree
from oplib.torch_names import make_getattr as _make_getattr

from . import checkpoint

_sys.modules[f"{__name__}._pytree"] = _pytree  # so that an import of torch's path finds it

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = ["checkpoint"]
