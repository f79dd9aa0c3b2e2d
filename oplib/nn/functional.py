"""The functions of networks under torch's names; each calls the op of its name, some also with ``inplace``.

Example:
    >>> import oplib
    >>> import oplib.nn.functional as F
    >>> F.relu(oplib.tensor([-1.0, 2.0]))
    tensor([0., 2.])
"""

from __future__ import annotations

from oplib.builtin.public_functions.registry import NETWORKS
from oplib.torch_names import make_lookups as _make_lookups

__all__ = sorted(NETWORKS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
__getattr__, __dir__ = _make_lookups(globals(), NETWORKS)
