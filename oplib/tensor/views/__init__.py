"""Views: tensors that read and write the storage of another tensor.

A view applies a chain of *frames* to its base. A frame is a pair of pure functions, ``get`` and ``put``.
"""

from __future__ import annotations

from .chain import Chain as Chain
from .chain import make_chain as make_chain
from .diagonal import Diagonal as Diagonal
from .frame import Frame as Frame
from .frame import Inverse as Inverse
from .frame import Starts as Starts
from .index_map import IndexMap as IndexMap
from .index_map import derive_index_map as derive_index_map
from .lineage import Creation as Creation
from .lineage import mark_stale as mark_stale
from .lineage import note_view as note_view
from .operand import read_operands as read_operands
from .parts import AsComplex as AsComplex
from .parts import AsDtype as AsDtype
from .parts import AsReal as AsReal
from .reshape import Reshape as Reshape
from .reshape import can_view as can_view
from .sliding import Sliding as Sliding
from .sliding import Strided as Strided
from .view_storage import AliasStorage as AliasStorage
from .view_storage import ViewStorage as ViewStorage
from .window import Window as Window
from .window import make_window as make_window
