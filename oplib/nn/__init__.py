"""The paths of ``torch.nn`` that oplib has; their contents are defined on lower floors."""

import typing as _typing

from oplib.importing import LateImports as _LateImports
from oplib.torch_names import make_getattr as _make_getattr

from . import functional

if _typing.TYPE_CHECKING:
    from . import utils
else:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals(), _LateImports(__name__, {"utils": "utils"}))

__all__ = ["functional", "utils"]
