"""Sorting, searching and sets, with the arguments and results of the array API standard."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from oplib.builtin.public_functions.registry import FUNCTIONS as OPS
from oplib.tensor import Tensor
from oplib.tensor.factories.from_data import as_tensor

from .naming import collect

FUNCTIONS: dict[str, Any] = {}
_standard = collect(FUNCTIONS)


class UniqueAll(NamedTuple):
    """The different items of a Tensor, where each comes first, which each item is, and how often each is."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The different items of a Tensor, and how often each is."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The different items of a Tensor, and which of them each item is."""

    values: Tensor
    inverse_indices: Tensor


@_standard
def _sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns the items of each row in order."""
    return x.sort(dim=axis, descending=descending, stable=stable).values


@_standard
def _argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns the places of the items of each row in order."""
    return x.argsort(dim=axis, descending=descending, stable=stable)


@_standard
def _nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Returns the places of the items that are not zero, one Tensor for each axis."""
    return OPS["nonzero"](x, as_tuple=True)


@_standard
def _searchsorted(
    x1: Tensor,
    x2: Any,
    /,
    *,
    side: Literal["left", "right"] = "left",
    sorter: Tensor | None = None,
) -> Tensor:
    """Returns where the items of ``x2`` belong in ``x1``."""
    return OPS["searchsorted"](x1, as_tensor(x2), side=side, sorter=sorter)


@_standard
def _unique_all(x: Tensor, /) -> UniqueAll:
    """Returns the different items with their first places, inverse places and counts."""
    values, inverse, counts = OPS["unique"](x, return_inverse=True, return_counts=True)
    order = inverse.flatten().argsort(stable=True)
    return UniqueAll(values, order[counts.cumsum(0) - counts], inverse, counts)


@_standard
def _unique_counts(x: Tensor, /) -> UniqueCounts:
    """Returns the different items with their counts."""
    return UniqueCounts(*OPS["unique"](x, return_counts=True))


@_standard
def _unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Returns the different items with the place of each item among them."""
    return UniqueInverse(*OPS["unique"](x, return_inverse=True))


@_standard
def _unique_values(x: Tensor, /) -> Tensor:
    """Returns the different items."""
    return OPS["unique"](x)
