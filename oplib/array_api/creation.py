"""New Tensors, with the arguments of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from oplib.builtin.public_functions.registry import FUNCTIONS as OPS
from oplib.errors import ArgumentValueError, describe
from oplib.tensor import Tensor
from oplib.tensor.factories import creation, from_data, likeness

from .naming import collect
from .shapes import to_tuple

FUNCTIONS: dict[str, Any] = {
    "empty_like": likeness.empty_like,
    "full_like": likeness.full_like,
    "ones_like": likeness.ones_like,
    "zeros_like": likeness.zeros_like,
}
_standard = collect(FUNCTIONS)


@_standard
def _asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Returns a Tensor of the data; a Tensor itself, unless dtype, device or ``copy`` ask for another one.

    Raises:
        ArgumentValueError: ``copy=False``, and the data must be copied.
    """
    if isinstance(obj, Tensor):
        return _convert(obj, dtype, device, copy)
    if copy is False:
        raise ArgumentValueError(
            f"asarray: data of this type cannot be taken without a copy. Got {describe(obj)}. Leave out "
            "copy=False, or use from_dlpack."
        )
    if isinstance(obj, (list, tuple)):
        obj = np.asarray([np.asarray(item) for item in obj], dtype=dtype) if _holds_tensors(obj) else obj
    return from_data.tensor(obj, dtype=dtype, device=device)


def _holds_tensors(values: Sequence[Any]) -> bool:
    return any(
        _holds_tensors(value) if isinstance(value, (list, tuple)) else isinstance(value, Tensor)
        for value in values
    )


def _convert(tensor: Tensor, dtype: Any, device: Any, copy: bool | None) -> Tensor:
    options = {name: one for name, one in (("dtype", dtype), ("device", device)) if one is not None}
    converted = tensor.to(**options) if options else tensor
    if copy is False and converted is not tensor:
        raise ArgumentValueError(
            f"asarray: copy=False, and the dtype or device differs. Got {describe(tensor)}. Leave it out."
        )
    return converted.clone() if copy and converted is tensor else converted


@_standard
def _arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Returns the numbers from ``start`` on, ``step`` apart, without ``stop``; none if there are none."""
    start, stop = (0, start) if stop is None else (start, stop)
    if (stop - start) * step < 0:
        stop = start
    return creation.arange(start, stop, step, dtype=dtype, device=device)


@_standard
def _empty(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns a Tensor of any values."""
    return creation.empty(to_tuple(shape), dtype=dtype, device=device)


@_standard
def _ones(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns a Tensor of ones."""
    return creation.ones(to_tuple(shape), dtype=dtype, device=device)


@_standard
def _zeros(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """Returns a Tensor of zeros."""
    return creation.zeros(to_tuple(shape), dtype=dtype, device=device)


@_standard
def _full(
    shape: int | Sequence[int], fill_value: complex, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Returns a Tensor of one value."""
    return creation.full(to_tuple(shape), fill_value, dtype=dtype, device=device)


@_standard
def _eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Returns ones on the diagonal ``k``, and zeros elsewhere."""
    size = (n_rows, n_rows if n_cols is None else n_cols)
    return from_data.tensor(np.eye(*size, k=k), dtype=dtype or creation.ones(0).dtype, device=device)


@_standard
def _linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """Returns ``num`` numbers with equal distances, the last of which is ``stop`` if ``endpoint``."""
    numbers = creation.linspace(start, stop, num if endpoint else num + 1, dtype=dtype, device=device)
    return numbers if endpoint else numbers[:num]


@_standard
def _from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Returns a Tensor of an array of another library."""
    taken = from_data.from_dlpack(x, device=device)
    return taken.clone() if copy else taken


@_standard
def _meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Returns the coordinates of a grid."""
    return tuple(OPS["meshgrid"](*arrays, indexing=indexing))


@_standard
def _tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns the items at and below the diagonal ``k``, and zeros elsewhere."""
    return x.tril(k)


@_standard
def _triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns the items at and above the diagonal ``k``, and zeros elsewhere."""
    return x.triu(k)
