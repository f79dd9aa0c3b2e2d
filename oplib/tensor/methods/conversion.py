"""Conversions to other dtypes and devices, and the ``new_`` factories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Unpack

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import Sharding, SingleDeviceSharding

from oplib.errors import ArgumentError
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor.devices.device import Device, is_abstract
from oplib.tensor.devices.layout import check_shape
from oplib.tensor.devices.placement import Placement, find_target, placement_like
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.class_names import name_class, read_class
from oplib.tensor.dtypes.rules import check_range, default_int_dtype, normalize_dtype
from oplib.tensor.shapes.construction import construct
from oplib.tensor.shapes.filling import fill, read_size
from oplib.tensor.storage.factory_options import FactoryOptions, check_options, list_options, read_options
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.storage.memory_format import MemoryFormat, check_format
from oplib.tensor.storage.metadata import TensorMetadata
from oplib.tensor.storage.storage import Storage
from oplib.tensor.storage.tensor_slots import TensorT
from oplib.tensor.upcalls import upcalls
from oplib.tracebacks import entry_point, refine_error


def _make_new(name: str, value: int, what: str):
    @entry_point
    @list_options
    def new(
        self: TensorConversion[TensorT], *sizes: Any, size: Any = None, **options: Unpack[FactoryOptions]
    ) -> TensorT:
        shape = read_size(name, sizes, size)
        check_options(name, options, len(shape))
        return self.new_full(shape, value, **options)

    new.__name__, new.__qualname__ = name, f"TensorConversion.{name}"  # pickle finds it there
    new.__doc__ = (
        f"Makes a tensor {what}, by default with the dtype and device of this tensor.\n\n"
        f"Example:\n    >>> import oplib\n    >>> oplib.ones(3).{name}(2, 1).shape\n    (2, 1)\n"
    )
    return new


class TensorConversion(TensorMetadata, Generic[TensorT]):
    """Mixin with ``to`` and similar methods, which are recorded, and ``new_`` factories, which are not."""

    _requires_grad: bool

    if TYPE_CHECKING:

        @staticmethod
        def from_array(array: Any, *, requires_grad: bool = False) -> TensorT:
            """See Tensor."""
            ...

    def to(
        self: Any,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: bool = False,
        copy: bool = False,
        memory_format: MemoryFormat | None = None,
    ) -> TensorT:
        """Returns the tensor with another dtype or on another device; the tensor itself if nothing changes.

        Args:
            *args: a dtype, a device, a device and a dtype, or a Tensor that has the dtype and placement.
            dtype: the dtype, as a keyword.
            device: a Device or its spelling, a ``jax.Device`` or ``Sharding``, as a keyword.
            non_blocking: ignored; JAX never waits for a copy.
            copy: return a new tensor even if nothing changes.
            memory_format: changes nothing; JAX chooses how arrays lie in memory.

        Raises:
            ArgumentError: an argument has another type, or the format needs another number of dimensions.
            DtypeError: the dtype is not available.
            DeviceError: the device does not exist.

        Gradient:
            The incoming gradient, converted or moved back.

        Example:
            >>> import oplib
            >>> oplib.tensor([1.5, -2.5]).to(oplib.int32)
            tensor([ 1, -2])
        """
        del non_blocking
        try:
            dtype, placement = _read_target(args, dtype, device)
            check_format("to", memory_format, len(self.shape))
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise
        result = self
        if dtype is not None and dtype != result.dtype:
            result = upcalls.to_dtype(result, dtype)
        if placement is not None and not _is_at(result._storage.array, placement):
            result = _move(result, placement)
        return upcalls.clone(self) if copy and result is self else result

    def cpu(self, memory_format: MemoryFormat | None = None) -> TensorT:
        """Returns the tensor on the CPU; the tensor itself if it is there. See ``to`` for the format.

        Example:
            >>> import oplib
            >>> oplib.ones(2).cpu().device.type
            'cpu'
        """
        return self.to(device=Device("cpu"), memory_format=memory_format)

    def cuda(
        self, device: Any = None, non_blocking: bool = False, memory_format: MemoryFormat | None = None
    ) -> TensorT:
        """Returns the tensor on a GPU, by default the first one; the tensor itself if it is there.

        Args:
            device: the GPU.
            non_blocking: ignored; JAX never waits for a copy.
            memory_format: changes nothing, see ``to``.

        Raises:
            DeviceError: there is no GPU.
        """
        target = Device("cuda") if device is None else device
        return self.to(device=target, non_blocking=non_blocking, memory_format=memory_format)

    @entry_point
    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Returns the name of torch's class of such tensors, or the tensor converted to a dtype.

        Args:
            dtype: a dtype, a class such as ``oplib.FloatTensor``, or its name as this method returns it.
            non_blocking: ignored; JAX never waits for a copy.

        Returns:
            A name such as "oplib.FloatTensor", on a GPU "oplib.cuda.FloatTensor", if no dtype is given; else
            a Tensor, the tensor itself if nothing changes.

        Raises:
            ArgumentValueError: there is no class of this name.
            DtypeError: the argument is no dtype, or the dtype is not available.
            DeviceError: the name is one of a GPU, and there is none.

        Source:
            torch.Tensor.type

        Example:
            >>> import oplib
            >>> oplib.tensor([1.5]).type(), oplib.tensor([1.5]).type("oplib.IntTensor")
            ('oplib.FloatTensor', tensor([1]))
        """
        del non_blocking
        own = "abstract" if is_abstract(self._storage.array) else self.device.type
        if dtype is None:
            return name_class(self.dtype, own)
        if not isinstance(dtype, str):
            return self.to(dtype=normalize_dtype(getattr(dtype, "dtype", dtype)))
        wanted, device_type = read_class(dtype)
        return self.to(dtype=wanted, device=None if own in (device_type, "abstract") else device_type)

    @entry_point
    def type_as(self, other: TensorT) -> TensorT:
        """Returns the tensor with the dtype of another; the tensor itself if it has this dtype.

        Example:
            >>> import oplib
            >>> oplib.tensor([1, 2]).type_as(oplib.ones(1))
            tensor([1., 2.])
        """
        return self.to(dtype=other.dtype)

    @entry_point
    def new_tensor(
        self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> TensorT:
        """Makes a leaf from a copy of data, by default with the dtype and device of this tensor.

        Example:
            >>> import oplib
            >>> oplib.ones(2).new_tensor([3, 4])
            tensor([3., 4.])
        """
        wanted = self.dtype if dtype is None else normalize_dtype(dtype)
        array = to_array(data, wanted, self._place_new(device))
        return self.from_array(array, requires_grad=requires_grad)

    @entry_point
    @list_options
    def new_full(self, size: Any, fill_value: Any, **options: Unpack[FactoryOptions]) -> TensorT:
        """Makes a tensor of one value, by default with the dtype and device of this tensor.

        Example:
            >>> import oplib
            >>> oplib.ones(2).new_full((3,), 7)
            tensor([7., 7., 7.])
        """
        shape = read_size("new_full", (size,))
        dtype, _, requires_grad = read_options("new_full", options, len(shape), lambda: self.dtype)
        array = fill(shape, fill_value, dtype, self._place_new(options.get("device")))
        return self.from_array(array, requires_grad=requires_grad)

    new_zeros = _make_new("new_zeros", 0, "of zeros")
    new_ones = _make_new("new_ones", 1, "of ones")
    new_empty = _make_new("new_empty", 0, "without defined values")

    def new(self, *args: Any, device: Any = None) -> TensorT:
        """Makes a tensor with the dtype and device of this one.

        It is older than ``new_empty`` and ``new_tensor``.

        Args:
            *args: sizes or an ``oplib.Size``, for a tensor without defined values (no size makes an empty
                one); another sequence or array of data; or a Tensor, for another one on its storage.
            device: by default the device of this tensor.

        Raises:
            DataTypeError: a single argument has another type.

        Example:
            >>> import oplib
            >>> oplib.ones(2).new([3, 4])
            tensor([3., 4.])
        """
        made: Any = construct("new", args, self.dtype, self._place_new(device))
        return self.from_array(made) if isinstance(made, jax.Array) else made.detach()

    def _place_new(self, device: Any) -> Placement:
        """Returns the placement of a new tensor.

        A sharding fits one shape only, so only a single device is copied.
        """
        array = self._storage.array
        if device is None and not is_abstract(array) and len(array.devices()) > 1:
            return None
        return placement_like(array, device)


def _read_target(args: Values, dtype: Any, device: Any) -> tuple[np.dtype[Any] | None, Placement]:
    """Sorts the arguments of ``to`` by type, as torch's overloads do."""
    for arg in args:
        if isinstance(arg, TensorMetadata):
            other = arg._storage.array
            dtype = other.dtype
            device = None if isinstance(other, Tracer) else other.sharding
        elif isinstance(arg, (np.dtype, type)) or (isinstance(arg, str) and arg in dtypes.__all__):
            dtype = arg
        elif isinstance(arg, bool) or arg is None:
            raise ArgumentError(
                f"to: positional arguments are a dtype, a device or a Tensor. Got {arg!r}. "
                f"Give copy= and non_blocking= as keywords."
            )
        else:
            device = arg
    return None if dtype is None else normalize_dtype(dtype), find_target(device)


def _is_at(array: Any, placement: Placement) -> bool:
    if isinstance(placement, Sharding):
        check_shape("to", array, placement)
    if isinstance(array, Tracer):
        return False
    if isinstance(placement, jax.Device):
        return array.devices() == {placement}
    return array.sharding.is_equivalent_to(placement, array.ndim)


def _move(tensor: Any, placement: Placement) -> Any:
    if isinstance(placement, jax.Device) and isinstance(tensor.array, Tracer):
        placement = SingleDeviceSharding(placement)  # JAX drops a device in a trace
    is_laid_out = isinstance(placement, Sharding)  # in a trace JAX then lays out the value
    if is_laid_out or (tensor._requires_grad and modes.grad_enabled):
        return upcalls.copy_to_device(tensor, placement)
    return tensor.from_array(jax.device_put(tensor.array, placement))


def _make_cast(name: str, dtype: np.dtype[Any]):
    def cast(self: TensorDtypes[TensorT], memory_format: MemoryFormat | None = None) -> TensorT:
        return self.to(dtype=dtype, memory_format=memory_format)

    cast.__name__, cast.__qualname__ = name, f"TensorDtypes.{name}"  # pickle finds it there
    cast.__doc__ = f"Returns the tensor as {dtype.name}; the tensor itself if it is {dtype.name}."
    call = f">>> oplib.ones(2).{name}().dtype.name\n    '{dtype.name}'"
    if dtype.name in ("float64", "complex128"):
        call = call.replace(">>> ", ">>> import jax\n    >>> with jax.enable_x64(True):\n    ...     ")
    cast.__doc__ += f"\n\nExample:\n    >>> import oplib\n    {call}\n"
    return cast


_MAY_EXCEED = frozenset({dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.uint32})


class TensorDtypes(Generic[TensorT]):
    """Mixin with a method for each common dtype. It is separate, because the names shadow Python's types."""

    if TYPE_CHECKING:
        _storage: Storage

        def to(self, *args: Any, dtype: Any = None, memory_format: Any = None) -> TensorT:
            """See TensorConversion."""
            ...

    float = _make_cast("float", dtypes.float32)
    double = _make_cast("double", dtypes.float64)
    half = _make_cast("half", dtypes.float16)
    bfloat16 = _make_cast("bfloat16", dtypes.bfloat16)
    cfloat = _make_cast("cfloat", dtypes.complex64)
    cdouble = _make_cast("cdouble", dtypes.complex128)
    byte = _make_cast("byte", dtypes.uint8)
    char = _make_cast("char", dtypes.int8)
    short = _make_cast("short", dtypes.int16)
    int = _make_cast("int", dtypes.int32)
    bool = _make_cast("bool", dtypes.bool)

    def long(self, memory_format: MemoryFormat | None = None) -> TensorT:
        """Returns the tensor in the default integer dtype: int64 with JAX's x64, else int32.

        Programs say ``long`` for classes and places, and mean no more. See ``to`` for the format.

        Raises:
            DtypeError: int32 does not hold a known value.

        Example:
            >>> import oplib
            >>> oplib.tensor([1.0, 2.0]).long()
            tensor([1, 2])
        """
        wide = default_int_dtype()
        array = self._storage.array
        if wide == dtypes.int32 and array.dtype in _MAY_EXCEED and not is_abstract(array):
            check_range(np.asarray(array), wide)
        return self.to(dtype=wide, memory_format=memory_format)
