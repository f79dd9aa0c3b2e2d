"""Views of a Tensor that are properties, or that use the shape of another tensor."""

from __future__ import annotations

from typing import Any, Generic

from oplib.errors import ArgumentError, describe
from oplib.tensor.storage.tensor_slots import TensorT
from oplib.tensor.upcalls import upcalls
from oplib.tracebacks import entry_point


class TensorViewMethods(Generic[TensorT]):
    """Mixin with views that are not ops."""

    @entry_point
    def view_as(self, other: TensorT) -> TensorT:
        """Returns the tensor in the shape of another, as :meth:`view` does."""
        return upcalls.view(self, list(other._storage.spec.shape))

    @entry_point
    def expand_as(self, other: TensorT) -> TensorT:
        """Returns the tensor expanded to the shape of another."""
        return upcalls.expand(self, list(other._storage.spec.shape))

    @entry_point
    def reshape_as(self, other: TensorT) -> TensorT:
        """Returns the tensor in the shape of another, as :meth:`reshape` does."""
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


def _conjugate(tensor: Any) -> Any:
    return upcalls.conj(tensor) if tensor.is_complex() else tensor
