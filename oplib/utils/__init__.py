"""The paths of ``torch.utils`` that oplib has; their contents are defined on other floors."""

import typing as _typing

from oplib.torch_names import make_getattr as _make_getattr

from . import checkpoint

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = ["checkpoint"]
