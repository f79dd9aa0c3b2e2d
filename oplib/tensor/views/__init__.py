"""Views: tensors that read and write the storage of another tensor.

A view applies a chain of *frames* to its base. A frame is a pair of pure functions, ``get`` and ``put``.
"""

from .chain import Chain as Chain, make_chain as make_chain
from .frame import Frame as Frame, Starts as Starts
from .index_map import IndexMap as IndexMap, derive_index_map as derive_index_map
from .indexed import Diagonal as Diagonal, Sliding as Sliding
from .lineage import Creation as Creation, mark_stale as mark_stale, note_view as note_view
from .parts import AsDtype as AsDtype, Pairs as Pairs
from .reshape import Reshape as Reshape, can_view as can_view
from .strided import Strided as Strided
from .view_storage import AliasStorage as AliasStorage, ViewStorage as ViewStorage
from .window import Window as Window, make_window as make_window
