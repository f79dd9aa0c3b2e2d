"""Torch's path ``amp``: ops that choose their dtypes, and Functions that take part in it.

Example:
    >>> import oplib
    >>> with oplib.amp.autocast("cpu"):
    ...     (oplib.ones(2, 2) @ oplib.ones(2, 2)).dtype
    dtype(bfloat16)
"""

from __future__ import annotations

import typing as _typing

from oplib.library.autocast.function_marks import custom_bwd, custom_fwd
from oplib.library.autocast.region import autocast, is_autocast_available
from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__dir__ = _make_dir(globals())
