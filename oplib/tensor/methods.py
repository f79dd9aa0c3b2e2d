# ruff: noqa: D102  each method is the op of its name, and documented there
"""The ops that are also methods of Tensor, one visible typed line each."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from oplib.errors import ArgumentError, describe

from .upcalls import upcalls

if TYPE_CHECKING:
    from .storage import Storage
    from .tensor import Tensor


class TensorMethods:
    """Mixin with every op that is also a method."""

    _storage: Storage

    # Arithmetic ------------------------------------------------------------------------------

    def add(self, other: Any, *, alpha: Any = 1) -> Tensor:
        return upcalls.add(self, other) if alpha == 1 else upcalls.add(self, other, alpha=alpha)

    def sub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        return upcalls.sub(self, other) if alpha == 1 else upcalls.sub(self, other, alpha=alpha)

    def mul(self, other: Any) -> Tensor:
        return upcalls.mul(self, other)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        return (
            upcalls.div(self, other)
            if rounding_mode is None
            else upcalls.div(self, other, rounding_mode=rounding_mode)
        )

    def true_divide(self, other: Any) -> Tensor:
        return upcalls.div(self, other)

    def pow(self, exponent: Any) -> Tensor:
        return upcalls.pow(self, exponent)

    def neg(self) -> Tensor:
        return upcalls.neg(self)

    def abs(self) -> Tensor:
        return upcalls.abs(self)

    def matmul(self, other: Any) -> Tensor:
        return upcalls.matmul(self, other)

    def mm(self, mat2: Any) -> Tensor:
        return upcalls.mm(self, mat2)

    # Functions item by item ------------------------------------------------------------------

    def exp(self) -> Tensor:
        return upcalls.exp(self)

    def log(self) -> Tensor:
        return upcalls.log(self)

    def sqrt(self) -> Tensor:
        return upcalls.sqrt(self)

    def sin(self) -> Tensor:
        return upcalls.sin(self)

    def cos(self) -> Tensor:
        return upcalls.cos(self)

    def tanh(self) -> Tensor:
        return upcalls.tanh(self)

    def sigmoid(self) -> Tensor:
        return upcalls.sigmoid(self)

    def relu(self) -> Tensor:
        return upcalls.relu(self)

    # Comparison and choice -------------------------------------------------------------------

    def eq(self, other: Any) -> Tensor:
        return upcalls.eq(self, other)

    def ne(self, other: Any) -> Tensor:
        return upcalls.ne(self, other)

    def lt(self, other: Any) -> Tensor:
        return upcalls.lt(self, other)

    def le(self, other: Any) -> Tensor:
        return upcalls.le(self, other)

    def gt(self, other: Any) -> Tensor:
        return upcalls.gt(self, other)

    def ge(self, other: Any) -> Tensor:
        return upcalls.ge(self, other)

    def where(self, condition: Any, other: Any) -> Tensor:
        return upcalls.where(condition, self, other)

    # Reductions ------------------------------------------------------------------------------

    def sum(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return (
            upcalls.sum(self, dim, keepdim) if dtype is None else upcalls.sum(self, dim, keepdim, dtype=dtype)
        )

    def mean(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        return (
            upcalls.mean(self, dim, keepdim)
            if dtype is None
            else upcalls.mean(self, dim, keepdim, dtype=dtype)
        )

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        return upcalls.max(self) if dim is None else upcalls.max(self, dim, keepdim)

    # Movement --------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Tensor:
        return upcalls.reshape(self, _join(shape))

    def view(self, *shape: Any, dtype: Any = None) -> Tensor:
        if dtype is not None or (len(shape) == 1 and isinstance(shape[0], (np.dtype, type))):
            return upcalls.view_dtype(self, shape[0] if dtype is None else dtype)
        return upcalls.view(self, _join(shape))

    def expand(self, *sizes: Any) -> Tensor:
        return upcalls.expand(self, _join(sizes))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        return upcalls.transpose(self, dim0, dim1)

    def permute(self, *dims: Any) -> Tensor:
        return upcalls.permute(self, _join(dims))

    def squeeze(self, dim: Any = None) -> Tensor:
        return upcalls.squeeze(self, dim)

    def unsqueeze(self, dim: int) -> Tensor:
        return upcalls.unsqueeze(self, dim)

    def t(self) -> Tensor:
        return upcalls.t(self)

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

    def clone(self) -> Tensor:
        return upcalls.clone(self)

    # In place --------------------------------------------------------------------------------

    def add_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        return upcalls.add_(self, other) if alpha == 1 else upcalls.add_(self, other, alpha=alpha)

    def sub_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        return upcalls.sub_(self, other) if alpha == 1 else upcalls.sub_(self, other, alpha=alpha)

    def mul_(self, other: Any) -> Tensor:
        return upcalls.mul_(self, other)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        return (
            upcalls.div_(self, other)
            if rounding_mode is None
            else upcalls.div_(self, other, rounding_mode=rounding_mode)
        )

    def pow_(self, exponent: Any) -> Tensor:
        return upcalls.pow_(self, exponent)

    def neg_(self) -> Tensor:
        return upcalls.neg_(self)

    def abs_(self) -> Tensor:
        return upcalls.abs_(self)

    def exp_(self) -> Tensor:
        return upcalls.exp_(self)

    def log_(self) -> Tensor:
        return upcalls.log_(self)

    def sqrt_(self) -> Tensor:
        return upcalls.sqrt_(self)

    def sin_(self) -> Tensor:
        return upcalls.sin_(self)

    def cos_(self) -> Tensor:
        return upcalls.cos_(self)

    def tanh_(self) -> Tensor:
        return upcalls.tanh_(self)

    def sigmoid_(self) -> Tensor:
        return upcalls.sigmoid_(self)

    def relu_(self) -> Tensor:
        return upcalls.relu_(self)

    def zero_(self) -> Tensor:
        return upcalls.zero_(self)

    def fill_(self, value: Any) -> Tensor:
        return upcalls.fill_(self, value)

    def copy_(self, src: Any) -> Tensor:
        return upcalls.copy_(self, src)

    # The tape --------------------------------------------------------------------------------

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
