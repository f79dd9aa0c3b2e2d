"""Methods of Tensor whose arguments differ from those of the op. The others are in :mod:`.op_methods`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from oplib.errors import ArgumentError, describe
from oplib.protocols import Values
from oplib.tensor.shapes.keywords import take_named
from oplib.tensor.storage.tensor_slots import TensorT
from oplib.tensor.upcalls import upcalls
from oplib.tracebacks import entry_point, refine_error, warn_user

if TYPE_CHECKING:
    from oplib.tensor.storage.storage import Storage


class TensorMethods(Generic[TensorT]):
    """Mixin with the methods that are written by hand."""

    _storage: Storage

    def where(self, condition: Any, other: Any) -> TensorT:
        """Returns the tensor's items where a condition holds, and other items elsewhere.

        Args:
            condition: bools.
            other: a tensor or number. All three broadcast.

        Source:
            torch.Tensor.where

        Example:
            >>> import oplib
            >>> oplib.tensor([1, 2]).where(oplib.tensor([True, False]), 0)
            tensor([1, 0])
        """
        return upcalls.where(condition, self, other)

    def reshape(self, *sizes: Any, shape: Any = None) -> TensorT:
        """Returns the items in another shape: as a view if possible, else as a copy.

        Args:
            sizes: the sizes as arguments or as one sequence. One of them may be -1 and is computed.
            shape: the sizes as a keyword.

        Source:
            torch.Tensor.reshape

        Example:
            >>> import oplib
            >>> oplib.tensor([[1, 2], [3, 4]]).reshape(-1)
            tensor([1, 2, 3, 4])
        """
        try:
            return upcalls.reshape(self, _read("reshape", "shape", shape, sizes))
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise

    def view(self, *sizes: Any, size: Any = None, dtype: Any = None) -> TensorT:
        """Returns a view of the items in another shape, or of their bits as another dtype.

        Args:
            sizes: the sizes as arguments or as one sequence, one of which may be -1 and is computed; or a
                dtype.
            size: the sizes as a keyword.
            dtype: the dtype as a keyword.

        Raises:
            ArgumentError: the sizes have another number of items, or such a view does not exist; see
                ``reshape``.

        Source:
            torch.Tensor.view

        Example:
            >>> import oplib
            >>> x = oplib.zeros(2, 2)
            >>> x.view(4)[0] = 1.0
            >>> x
            tensor([[1., 0.],
                    [0., 0.]])
        """
        try:
            if size is None and (
                dtype is not None or (len(sizes) == 1 and isinstance(sizes[0], (np.dtype, type)))
            ):
                return upcalls.view_dtype(self, sizes[0] if dtype is None else dtype)
            return upcalls.view(
                self, _read("view", "size", size, sizes if dtype is None else (*sizes, dtype))
            )
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise

    def expand(self, *sizes: Any, size: Any = None) -> TensorT:
        """Returns a view that repeats the item of axes of size 1.

        Args:
            sizes: the sizes as arguments or as one sequence; -1 keeps a size. New axes come first.
            size: the sizes as a keyword.

        Source:
            torch.Tensor.expand

        Example:
            >>> import oplib
            >>> oplib.tensor([[1], [2]]).expand(-1, 3)
            tensor([[1, 1, 1],
                    [2, 2, 2]])
        """
        try:
            return upcalls.expand(self, _read("expand", "size", size, sizes))
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise

    def permute(self, *numbers: Any, dims: Any = None) -> TensorT:
        """Returns a view with the dims in another order.

        Args:
            numbers: the dims as arguments or as one sequence, each once.
            dims: the dims as a keyword.

        Source:
            torch.Tensor.permute

        Example:
            >>> import oplib
            >>> oplib.zeros(2, 3, 4).permute(2, 0, 1).shape
            (4, 2, 3)
        """
        try:
            return upcalls.permute(self, _read("permute", "dims", dims, numbers))
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise

    @property
    def T(self) -> TensorT:  # noqa: N802  torch's name
        """The transposed matrix, as a view. For another number of dims, which warns, all dims are reversed.

        Source:
            torch.Tensor.T
        """
        rank = len(self._storage.spec.shape)
        if rank != 2:
            _warn_of_reversing(rank)
        return upcalls.permute(self, tuple(reversed(range(rank))))

    @property
    def mT(self) -> TensorT:  # noqa: N802  torch's name
        """The matrices along the last two dims transposed, as a view.

        Raises:
            ArgumentError: the tensor is a vector.

        Source:
            torch.Tensor.mT
        """
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
        """Adds the gradient of this tensor with respect to each leaf to the ``grad`` of that leaf.

        Args:
            gradient: the gradient of the result with respect to this tensor, of its shape; may be omitted if
                the tensor has one item.
            retain_graph: whether the graph stays for another pass. The default is the value of
                ``create_graph``.
            create_graph: whether the gradients can be differentiated.
            inputs: the tensors that receive a gradient; by default all leaves.

        Raises:
            AutogradError: the tensor does not require grad, or its graph was freed.

        Source:
            torch.Tensor.backward

        Example:
            >>> import oplib
            >>> x = oplib.tensor([1.0, 2.0], requires_grad=True)
            >>> (x * x).sum().backward()
            >>> x.grad
            tensor([2., 4.])
        """
        try:
            upcalls.run_backward(self, gradient, retain_graph, create_graph, inputs=inputs)
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise

    @entry_point
    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> TensorT:
        """Sets the items whose indices are all equal, in place.

        Args:
            fill_value: the number.
            wrap: start again below the diagonal of a tall matrix, after one row without it.

        Raises:
            ArgumentError: there are fewer than two dimensions, or more than two of several sizes.

        Gradient:
            Zero for the items that are set.

        Source:
            ``torch.Tensor.fill_diagonal_``

        Example:
            >>> import oplib
            >>> oplib.zeros(2, 2).fill_diagonal_(3.0)
            tensor([[3., 0.],
                    [0., 3.]])
        """
        tensor: Any = self
        sizes = tensor.shape
        if len(sizes) < 2 or (len(sizes) > 2 and len(set(sizes)) > 1):
            raise ArgumentError(
                f"fill_diagonal_: it takes a matrix, or more dimensions of one size. Got "
                f"{describe(self)}. Take a diagonal() of two dimensions, and fill that."
            )
        if len(sizes) > 2:
            diagonals = [tensor.as_strided(sizes[:1], (sum(tensor.stride()),), tensor.storage_offset())]
        else:
            starts = range(0, sizes[0], sizes[1] + 1) if wrap else (0,)
            diagonals = [tensor[start:].diagonal() for start in starts]
        for diagonal in diagonals:
            diagonal.fill_(fill_value)
        return tensor

    def view_as(self, other: TensorT) -> TensorT:
        """Returns the tensor in the shape of another, as :meth:`view` does.

        Example:
            >>> import oplib
            >>> oplib.ones(6).view_as(oplib.zeros(3, 2)).shape
            (3, 2)
        """
        return upcalls.view(self, list(other._storage.spec.shape))

    @entry_point
    def expand_as(self, other: TensorT) -> TensorT:
        """Returns the tensor expanded to the shape of another.

        Example:
            >>> import oplib
            >>> oplib.ones(1, 2).expand_as(oplib.zeros(3, 2)).shape
            (3, 2)
        """
        return upcalls.expand(self, list(other._storage.spec.shape))

    @entry_point
    def reshape_as(self, other: TensorT) -> TensorT:
        """Returns the tensor in the shape of another, as :meth:`reshape` does.

        Example:
            >>> import oplib
            >>> oplib.ones(6).reshape_as(oplib.zeros(3, 2)).shape
            (3, 2)
        """
        return upcalls.reshape(self, list(other._storage.spec.shape))

    @property
    def real(self) -> TensorT:
        """The real parts, as a view; for a real tensor the tensor itself."""
        return upcalls.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        upcalls.setitem_(upcalls.real(self), ..., value)

    @property
    def imag(self) -> TensorT:
        """The imaginary parts, as a view."""
        return upcalls.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        upcalls.setitem_(upcalls.imag(self), ..., value)

    @property
    def H(self) -> TensorT:  # noqa: N802  torch's name
        """The conjugate of the transposed matrix.

        Raises:
            ArgumentError: the tensor is not a matrix.
        """
        matrix: Any = self
        if matrix.ndim not in (0, 2):
            raise ArgumentError(
                "H: it is only supported on matrices (2-D tensors). Got "
                f"{describe(matrix._storage.spec)}. Use mH for "
                "batches of matrices."
            )
        return matrix.mH if matrix.ndim else _conjugate(matrix)

    @property
    def mH(self) -> TensorT:  # noqa: N802  torch's name
        """The conjugates of the transposed matrices along the last two dimensions; for real ones a view."""
        matrices: Any = self
        return _conjugate(matrices.mT)


def _warn_of_reversing(rank: int) -> None:
    warn_user(
        f"T: the use of x.T on tensors of dimension other than 2 to reverse their shape is deprecated in "
        f"torch. Got {rank} dimensions. Use x.mT for batches of matrices, or x.permute."
    )


def _read(op: str, name: str, named: Any, given: Values) -> Any:
    """Reads ``f(2, 3)``, ``f((2, 3))`` and ``f(name=(2, 3))`` in the same way."""
    if named is not None:
        return take_named(op, name, named, given)
    return given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _conjugate(tensor: Any) -> Any:
    return upcalls.conj(tensor) if tensor.is_complex() else tensor
