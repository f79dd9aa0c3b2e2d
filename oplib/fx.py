"""Torch's path ``fx``. ``oplib.jit`` needs no marks: ``wrap`` returns the function, or its name, as it is."""

import typing as _typing

from oplib.torch_names import hand_back as wrap, make_getattr as _make_getattr

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = ["wrap"]
