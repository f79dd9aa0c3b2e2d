# ruff: noqa: D102  each method is the op of its name, and documented there
"""Methods of Tensor that take their arguments otherwise than the op; the others are in :mod:`.op_methods`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from oplib.errors import ArgumentError, describe

from .keywords import take_named
from .upcalls import upcalls

if TYPE_CHECKING:
    from .storage import Storage
    from .tensor import Tensor


class TensorMethods:
    """Mixin with the methods that are written out."""

    _storage: Storage

    def where(self, condition: Any, other: Any) -> Tensor:
        return upcalls.where(condition, self, other)

    def reshape(self, *sizes: Any, shape: Any = None) -> Tensor:
        if shape is not None:
            return upcalls.reshape(self, take_named("reshape", "shape", shape, sizes))
        return upcalls.reshape(self, _join(sizes))

    def view(self, *sizes: Any, size: Any = None, dtype: Any = None) -> Tensor:
        if size is not None:
            given = sizes if dtype is None else (*sizes, dtype)
            return upcalls.view(self, take_named("view", "size", size, given))
        if dtype is not None or (len(sizes) == 1 and isinstance(sizes[0], (np.dtype, type))):
            return upcalls.view_dtype(self, sizes[0] if dtype is None else dtype)
        return upcalls.view(self, _join(sizes))

    def expand(self, *sizes: Any, size: Any = None) -> Tensor:
        if size is not None:
            return upcalls.expand(self, take_named("expand", "size", size, sizes))
        return upcalls.expand(self, _join(sizes))

    def permute(self, *numbers: Any, dims: Any = None) -> Tensor:
        if dims is not None:
            return upcalls.permute(self, take_named("permute", "dims", dims, numbers))
        return upcalls.permute(self, _join(numbers))

    @property
    def T(self) -> Tensor:  # noqa: N802  torch's name
        rank = len(self._storage.spec.shape)
        if rank != 2:
            _warn_of_reversing(rank)
        return upcalls.permute(self, tuple(reversed(range(rank))))

    @property
    def mT(self) -> Tensor:  # noqa: N802  torch's name
        rank = len(self._storage.spec.shape)
        if not rank:
            return self.T
        if rank == 1:
            raise ArgumentError(
                f"mT: it is only supported on matrices or batches of matrices. Got "
                f"{describe(self._storage.spec)}. Use unsqueeze to make a matrix of it."
            )
        return upcalls.transpose(self, -2, -1)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        upcalls.run_backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _warn_of_reversing(rank: int) -> None:
    warnings.warn(
        f"T: the use of x.T on tensors of dimension other than 2 to reverse their shape is deprecated in "
        f"torch. Got {rank} dimensions. Use x.mT for batches of matrices, or x.permute.",
        stacklevel=3,
    )


def _join(sizes: tuple[Any, ...]) -> Any:
    """Reads ``f(2, 3)`` and ``f((2, 3))`` alike."""
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
