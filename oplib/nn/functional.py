"""The functions of networks under torch's names; each calls the op of its name, some also with ``inplace``.

Example:
    >>> import oplib
    >>> import oplib.nn.functional as F
    >>> F.relu(oplib.tensor([-1.0, 2.0]))
    tensor([0., 2.])
"""

from __future__ import annotations

from oplib.builtin.functions.registry import NETWORKS
from oplib.torch_names import make_getattr as _make_getattr

__all__ = sorted(NETWORKS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
__getattr__ = _make_getattr(globals(), NETWORKS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
