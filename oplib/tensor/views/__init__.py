"""Views: tensors that read and write the storage of another tensor.

A view applies a chain of *frames* to its base. A frame is a pair of pure functions, ``get`` and ``put``.
"""

from __future__ import annotations

from .bits import AsDtype
from .chain import Chain, make_chain
from .diagonal import Diagonal
from .frame import Frame, Inverse, Starts
from .index_map import IndexMap, derive_index_map
from .lineage import Creation, mark_stale, note_view
from .operand import read_operands
from .parts import AsComplex, AsReal
from .reshape import Reshape, can_view
from .sliding import Sliding, Strided
from .view_storage import AliasStorage, ViewStorage
from .window import Window, make_window

__all__ = [
    "AliasStorage",
    "AsComplex",
    "AsDtype",
    "AsReal",
    "Chain",
    "Creation",
    "Diagonal",
    "Frame",
    "IndexMap",
    "Inverse",
    "Reshape",
    "Sliding",
    "Starts",
    "Strided",
    "ViewStorage",
    "Window",
    "can_view",
    "derive_index_map",
    "make_chain",
    "make_window",
    "mark_stale",
    "note_view",
    "read_operands",
]
