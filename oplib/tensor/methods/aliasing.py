"""Shared memory: the base of a view, ``data``, ``detach_``, and torch's strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, Self, cast

from oplib.errors import ArgumentError, ArgumentTypeError, AutogradError, describe
from oplib.modes import modes
from oplib.tensor.shapes.filling import read_size
from oplib.tensor.storage.cut import CutStorage, cut_storage
from oplib.tensor.storage.escape import refuse_escape, refuse_outside
from oplib.tensor.storage.memory_format import (
    MemoryFormat,
    MemoryLayout,
    check_format,
    contiguous_format,
    preserve_format,
    require_format,
    strided,
)
from oplib.tensor.storage.metadata import check_dim
from oplib.tensor.storage.storage import Storage
from oplib.tensor.storage.tensor_slots import TensorSlots, TensorT
from oplib.tensor.upcalls import upcalls
from oplib.tensor.views import AliasStorage, ViewStorage
from oplib.tensor.views.lineage import end_history, has_views
from oplib.tracebacks import entry_point


class TensorAliasing(Generic[TensorT]):
    """Mixin with properties and methods about shared memory."""

    _storage: Storage
    _root: TensorT | None
    _views: list[Any] | None
    _grad_fn: Any
    _requires_grad: bool
    _output_nr: int

    @property
    def _base(self) -> TensorT | None:
        """The tensor whose history this view shares; None if the tensor is not a view."""
        return self._root

    def _is_view(self) -> bool:
        """Returns whether the tensor is a view that shares the history of its base."""
        return self._root is not None

    @property
    def data(self) -> TensorT:
        """A tensor without history on the same memory.

        It has a version of its own, so writes into it are not noticed.

        After assigning a tensor, this one shares the memory of that tensor, and keeps its own history and
        version. Its views keep the old memory, and share the version.

        Raises:
            ArgumentError: the assigned value is not a Tensor.
            AutogradError: the assigned tensor has another dtype, and this tensor requires grad.
            TracingError: the assigned tensor holds a value of a trace that this tensor outlives.

        Example:
            >>> import oplib
            >>> x = oplib.ones(2, requires_grad=True)
            >>> _ = x.data.mul_(3)
            >>> x.tolist(), x._version
            ([3.0, 3.0], 0)
        """
        alias: Any = self.detach()  # pyright: ignore[reportAttributeAccessIssue]
        alias._storage = AliasStorage(alias._storage)
        return alias

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, TensorAliasing):
            raise ArgumentError(
                f"data: expected a Tensor. Got {describe(value)}. Assign oplib.tensor(value), or copy_ it in."
            )
        own, new = self._storage.spec, value._storage.spec
        if new.dtype != own.dtype and self._requires_grad:
            raise AutogradError(
                f"data: a tensor that requires grad keeps its dtype. Got {describe(new)} for "
                f"{describe(own)}. Convert it first."
            )
        refuse_escape(value._storage.owner.array, cast("TensorSlots", self), "data")
        cut = value._storage
        if cut_storage(cut) is not cut:
            is_alike = (new.shape, new.dtype) == (own.shape, own.dtype)
            cut = CutStorage(cut, self._storage.array if is_alike else None)
        self._storage = AliasStorage.move(
            self._storage,
            cut,
            has_views=has_views(self),
            is_view=self._root is not None,
        )
        if self._requires_grad and new.shape != own.shape:
            upcalls.fit_gradients(self)

    def set_(self, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Self:
        """Makes this tensor share the memory of another one: ``tensor.data = source``, counted as a write.

        Args:
            source: a Tensor of the same dtype; None empties this tensor.
            storage_offset: with ``size``, the first item of a view of the source.
            size: the shape of that view, see ``as_strided``; by default the tensor takes that of the source.
            stride: the strides of that view, by default contiguous.

        Raises:
            ArgumentTypeError: ``source`` is not a Tensor.
            ArgumentError: it has another dtype.
            AutogradError: a tensor requires grad while grad mode is on. Writing has no derivative here.

        Source:
            ``torch.Tensor.set_``

        Example:
            >>> import oplib
            >>> x, y = oplib.zeros(2), oplib.ones(3)
            >>> x.set_(y)[0] = 5.0
            >>> y
            tensor([5., 1., 1.])
        """
        refuse_outside(cast("TensorSlots", self), "set_")
        other: Any = self.new_empty(0) if source is None else source  # pyright: ignore[reportAttributeAccessIssue]
        is_tensor = isinstance(other, TensorAliasing)
        if not is_tensor or other._storage.spec.dtype != self._storage.spec.dtype:
            raise (ArgumentError if is_tensor else ArgumentTypeError)(
                f"set_: could not set a tensor of another type. Got {describe(other)} for "
                f"{describe(self._storage.spec)}. Give a Tensor of the same dtype."
            )
        if modes.grad_enabled and (self._requires_grad or other._requires_grad):
            raise AutogradError(
                "set_: a leaf Variable that requires grad is being used in an in-place operation, which has "
                f"no derivative. Got {describe(other._storage.spec)} for {describe(self._storage.spec)}. "
                "Use detach(), or oplib.no_grad()."
            )
        owner: Any = self._storage.owner
        if owner.is_inference:
            owner.check_mode()
        if size is not None:
            size = read_size("set_", (size,))
            dense = [math.prod(size[index + 1 :]) for index in range(len(size))]
            other = upcalls.as_strided(other, size, dense if stride is None else stride, storage_offset)
        self.data = other
        self._storage.version += 1
        return self

    def detach_(self) -> Self:
        """Removes the history of the tensor, which becomes a leaf that does not require grad.

        As in torch it does nothing in inference mode.

        Raises:
            AutogradError: the tensor is a view, which shares the history of its base.

        Example:
            >>> import oplib
            >>> x = oplib.ones(2, requires_grad=True) * 2
            >>> x.detach_()
            tensor([2., 2.])
        """
        if modes.inference:
            return self
        if self._root is not None and not self._storage.is_inference:
            raise AutogradError(
                "detach_: Can't detach views in-place. Use detach() instead. Got a view of "
                f"{describe(self._root._storage.spec)}, whose history it shares."
            )
        end_history(self)
        self._tangent_slot = None
        self._storage = cut_storage(self._storage)
        return self

    @property
    def layout(self) -> MemoryLayout:
        """``oplib.strided``. There are no sparse tensors."""
        return strided

    @entry_point
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Returns the strides of torch's memory, in items, for every dimension or for one.

        JAX chooses the layout of its arrays, so a result counts as contiguous. For a view the strides
        describe its place in its base.

        Args:
            dim: the dimension; negative values count from the end.

        Raises:
            DimensionError: the dimension does not exist.

        Example:
            >>> import oplib
            >>> oplib.zeros(2, 3).t().stride()
            (1, 3)
        """
        strides = self._storage.layout[0]
        return strides if dim is None else strides[check_dim("stride", self._storage.spec.shape, dim)]

    def storage_offset(self) -> int:
        """Returns the offset of a view in the memory of its base, in items.

        Example:
            >>> import oplib
            >>> oplib.zeros(2, 3)[1].storage_offset()
            3
        """
        return self._storage.layout[1]

    def is_set_to(self, tensor: TensorAliasing[Any]) -> bool:
        """Returns whether another tensor has the same items of the same memory.

        Example:
            >>> import oplib
            >>> x = oplib.zeros(2, 2)
            >>> x.is_set_to(x.detach()), x.is_set_to(x.t()), x.is_set_to(x.clone())
            (True, False, False)
        """
        own, other = self._storage, tensor._storage
        is_one = own.owner is other.owner and own.layout == other.layout
        return is_one and own.spec.shape == other.spec.shape

    def is_contiguous(self, memory_format: MemoryFormat = contiguous_format) -> bool:
        """Returns whether the tensor would be contiguous in torch's memory.

        Args:
            memory_format: the order of the dimensions in memory. Only views have another order than the one
                of their shape.

        Raises:
            ArgumentTypeError: the format is another object.

        Example:
            >>> import oplib
            >>> oplib.ones(2, 3).T.is_contiguous()
            False
        """
        if memory_format is not contiguous_format:
            return self._has_order(memory_format)
        shape = self._storage.spec.shape
        if 0 in shape or not isinstance(self._storage.spec, ViewStorage):
            return True
        return _is_dense(shape, self._storage.layout[0])

    def _has_order(self, memory_format: MemoryFormat) -> bool:
        require_format("is_contiguous", memory_format)
        order = memory_format.order
        if not order:
            return self.is_contiguous()
        shape, strides = self._storage.spec.shape, self._storage.layout[0]
        if len(order) != len(shape):
            return False
        return _is_dense([shape[dim] for dim in order], [strides[dim] for dim in order])

    def contiguous(self, memory_format: MemoryFormat = contiguous_format) -> TensorT:
        """Returns the tensor itself if it is contiguous, else a contiguous copy.

        Args:
            memory_format: the order of the dimensions in memory. It changes nothing here: JAX chooses how
                arrays lie in memory.

        Raises:
            ArgumentError: the format needs another number of dimensions, or it is ``preserve_format`` and the
                tensor is not contiguous.
            ArgumentTypeError: the format is another object.

        Example:
            >>> import oplib
            >>> oplib.ones(2, 3).T.contiguous().is_contiguous()
            True
        """
        is_contiguous = self.is_contiguous()
        if memory_format is not contiguous_format:
            require_format("contiguous", memory_format)
            check_format("contiguous", memory_format, len(self._storage.spec.shape))
            if memory_format is preserve_format and not is_contiguous:
                raise ArgumentError(
                    "contiguous: preserve memory format is unsupported by the contiguous operator. Got "
                    f"{describe(self._storage.spec)}. Leave it out, or use clone."
                )
        return self if is_contiguous else upcalls.clone(self)  # pyright: ignore[reportReturnType]


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Tells whether items lie side by side, the last dim fastest."""
    expected = 1
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True
