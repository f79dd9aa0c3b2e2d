"""Torch's path ``_dynamo``. oplib has no such compiler: the marks for it do nothing.

Example:
    >>> import oplib
    >>> oplib._dynamo.is_compiling()
    False
"""

import typing as _typing

from oplib.tensor.storage.escape import is_inside_trace as is_compiling
from oplib.torch_names import (
    hand_back as allow_in_graph,
    hand_back as disable,
    make_getattr as _make_getattr,
)

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = ["allow_in_graph", "disable", "graph_break", "is_compiling"]


def graph_break() -> None:
    """Does nothing."""
