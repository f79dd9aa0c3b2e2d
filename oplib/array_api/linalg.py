"""The extension ``linalg`` of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.builtin.public_functions.registry import FUNCTIONS as OPS, LINALG
from oplib.tensor import Tensor
from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr

from .naming import collect

_SAME = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "vecdot",
    "vector_norm",
]
FUNCTIONS: dict[str, Any] = {}
_standard = collect(FUNCTIONS, __name__)


@_standard
def _matrix_transpose(x: Tensor, /) -> Tensor:
    """Returns the matrices of a Tensor, transposed."""
    return x.mT


@_standard
def _outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns the products of each two items of two vectors."""
    return OPS["outer"](x1, x2)


@_standard
def _tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Returns sums of products over some axes."""
    return OPS["tensordot"](x1, x2, axes if isinstance(axes, int) else [list(dims) for dims in axes])


@_standard
def _trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Returns the sum of a diagonal of each matrix."""
    return LINALG["linalg_diagonal"](x, offset=offset).sum(-1, dtype=dtype)


@_standard
def _vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the dot products of vectors; the first is conjugated."""
    return LINALG["linalg_vecdot"](x1, x2, dim=axis)


_VALUES = LINALG.rename({name: f"linalg_{name}" for name in _SAME if name not in FUNCTIONS})
globals().update(FUNCTIONS)
__all__ = sorted({*_SAME, *FUNCTIONS})  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
__dir__ = _make_dir(globals())
__getattr__ = _make_getattr(globals(), _VALUES)
