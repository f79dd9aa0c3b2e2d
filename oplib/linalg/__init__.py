"""Linear algebra under torch's names: ``oplib.linalg.inv(x)`` is the op ``linalg_inv``.

Example:
    >>> import oplib
    >>> oplib.linalg.det(oplib.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(6.)
"""

from __future__ import annotations

from oplib.builtin.public_functions.registry import LINALG
from oplib.errors import LinAlgError as LinAlgError
from oplib.torch_names import make_lookups as _make_lookups

_FUNCTIONS = LINALG.rename({name.removeprefix("linalg_"): name for name in LINALG})
__all__ = sorted(["LinAlgError", *_FUNCTIONS])  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
__getattr__, __dir__ = _make_lookups(globals(), _FUNCTIONS)
