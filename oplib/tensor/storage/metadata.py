"""Properties of a Tensor that do not depend on its values. All of them work under a trace."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from oplib.errors import ArgumentTypeError, DimensionError
from oplib.tensor.devices.device import Device, device_of_array, device_type_of
from oplib.tracebacks import entry_point

from .overlay import overlays
from .size import Size, make_size

if TYPE_CHECKING:
    from .storage import Storage


def _make_test_of_device(device_type: str) -> property:
    def is_there(self: TensorMetadata) -> bool:
        return device_type_of(self._storage.array) == device_type

    return property(is_there, doc=f"Whether it is on a {device_type}; if traced, JAX's default.")


class TensorMetadata:
    """Mixin with shape, dtype and device."""

    _storage: Storage

    is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_nested = is_meta = False
    is_cpu = _make_test_of_device("cpu")
    is_cuda = _make_test_of_device("cuda")
    is_mps = _make_test_of_device("mps")
    is_xpu = _make_test_of_device("xpu")

    @property
    def shape(self) -> Size:
        """The length of each dimension, as a :class:`~oplib.Size`, which is a tuple."""
        return make_size(self._storage.spec.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, a numpy object that JAX shares."""
        return self._storage.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._storage.spec.ndim

    @property
    def device(self) -> Device:
        """The device of the tensor; under a trace of JAX the abstract device.

        While ``oplib.jit`` traces a function whose operands are on one device, it is that device.

        Raises:
            DeviceError: the tensor is on several devices; see :attr:`sharding`.
        """
        overlay = overlays.current
        array = self._storage.array
        if overlay is not None and overlay.device is not None and isinstance(array, Tracer):
            return overlay.device
        return device_of_array(array)

    @property
    def sharding(self) -> jax.sharding.Sharding:
        """The layout of the tensor over devices."""
        array = self._storage.array
        return jax.typeof(array).sharding if isinstance(array, Tracer) else array.sharding

    @overload
    def size(self) -> Size: ...

    @overload
    def size(self, dim: int) -> int: ...

    @entry_point
    def size(self, dim: int | None = None) -> Size | int:
        """Returns the shape as a :class:`~oplib.Size`, or the length of one dimension.

        Args:
            dim: the dimension; negative values count from the end.

        Raises:
            DimensionError: the dimension does not exist.

        Example:
            >>> import oplib
            >>> oplib.ones(2, 3).size(1)
            3
        """
        shape = self._storage.spec.shape
        return make_size(shape) if dim is None else shape[check_dim("size", shape, dim)]

    def dim(self) -> int:
        """Returns the number of dimensions.

        Example:
            >>> import oplib
            >>> oplib.ones(2, 3).dim()
            2
        """
        return self._storage.spec.ndim

    ndimension = dim

    def numel(self) -> int:
        """Returns the number of items.

        Example:
            >>> import oplib
            >>> oplib.ones(2, 3).nelement()
            6
        """
        return math.prod(self._storage.spec.shape)

    nelement = numel

    def element_size(self) -> int:
        """Returns the number of bytes of one item.

        Example:
            >>> import oplib
            >>> oplib.ones(2).element_size()
            4
        """
        return self._storage.spec.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """The number of bytes of one item."""
        return self._storage.spec.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The number of bytes of all items."""
        return self.numel() * self.itemsize

    def is_floating_point(self) -> bool:
        """Returns whether the dtype is floating.

        Example:
            >>> import oplib
            >>> oplib.ones(2).is_floating_point()
            True
        """
        return jnp.issubdtype(self._storage.spec.dtype, jnp.floating)

    def is_complex(self) -> bool:
        """Returns whether the dtype is complex.

        Example:
            >>> import oplib
            >>> oplib.tensor([1j]).is_complex()
            True
        """
        return jnp.issubdtype(self._storage.spec.dtype, jnp.complexfloating)

    def is_signed(self) -> bool:
        """Returns whether the dtype has negative numbers.

        Example:
            >>> import oplib
            >>> oplib.ones(2).is_signed()
            True
        """
        return jnp.issubdtype(self._storage.spec.dtype, jnp.inexact) or self.dtype.kind == "i"

    def is_same_size(self, other: TensorMetadata) -> bool:
        """Returns whether another tensor has the same shape.

        Example:
            >>> import oplib
            >>> oplib.ones(2).is_same_size(oplib.zeros(3))
            False
        """
        return self._storage.spec.shape == other._storage.spec.shape

    def get_device(self) -> int:
        """Returns the index of the device; -1 on the CPU.

        Example:
            >>> import oplib
            >>> oplib.ones(2).cpu().get_device()
            -1
        """
        device = self.device
        return -1 if device.type == "cpu" else device.index or 0

    def __len__(self) -> int:
        shape = self._storage.spec.shape
        if not shape:
            raise ArgumentTypeError(
                "len() of a 0-d tensor. Got shape (). Use tensor.numel() for the number of items."
            )
        return shape[0]


def check_dim(op: str, shape: tuple[int, ...], dim: int) -> int:
    """Returns a dim unchanged, or raises DimensionError if a shape does not have it."""
    if not -len(shape) <= dim < len(shape):
        raise DimensionError(
            f"{op}: dimension out of range. Got dim={dim} for shape {shape}. "
            f"Give one from {-len(shape)} to {len(shape) - 1}."
        )
    return dim


def is_tensor(value: object) -> bool:
    """Returns whether the value is a Tensor.

    Example:
        >>> import oplib
        >>> is_tensor(oplib.tensor(1.0)), is_tensor(1.0)
        (True, False)
    """
    return isinstance(value, TensorMetadata)
