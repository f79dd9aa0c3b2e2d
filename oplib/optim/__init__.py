"""Optimizers over Tensors: any transformation of optax, as an object with ``step`` and ``zero_grad``."""

import typing as _typing

from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr

from .optimizer import Optimizer

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = ["Optimizer"]
__dir__ = _make_dir(globals())
