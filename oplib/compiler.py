"""Torch's path ``compiler``: whether a function is traced.

Example:
    >>> import oplib
    >>> @oplib.jit
    ... def traced():
    ...     return oplib.compiler.is_compiling()
    >>> traced(), oplib.compiler.is_compiling()
    (True, False)
"""

from __future__ import annotations

import typing as _typing

from oplib.tensor.storage.escape import is_inside_trace as _is_inside_trace
from oplib.torch_names import (
    hand_back as allow_in_graph,
    hand_back as disable,
    make_dir as _make_dir,
    make_getattr as _make_getattr,
    no_compiler as is_exporting,
)

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = ["allow_in_graph", "disable", "is_compiling", "is_exporting"]
__dir__ = _make_dir(globals())


def is_compiling() -> bool:
    """Returns whether the calling code is traced, so that Tensors may have no values.

    It is where ``oplib.jit``, ``oplib.vmap``, control flow, a compiled backward or a transformation of JAX
    runs a function once for all of its calls, and in kernels and rules that oplib compiles.

    Example:
        >>> import oplib
        >>> def clip(x):
        ...     if oplib.compiler.is_compiling() or x.sum() > 1:
        ...         return x.clamp(max=1.0)
        ...     return x
        >>> oplib.jit(clip)(oplib.tensor([0.5, 3.0]))
        tensor([0.5000, 1.0000])
    """
    return _is_inside_trace()
