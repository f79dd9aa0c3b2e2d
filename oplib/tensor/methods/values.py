"""The values of a Tensor in Python. Under a trace each method raises an error with its name."""

from __future__ import annotations

import inspect
from functools import lru_cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.core import Tracer

from oplib.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArgumentValueError,
    AutogradError,
    ConcreteValueError,
    describe,
)
from oplib.modes import modes
from oplib.tensor.storage.escape import is_inside_trace
from oplib.tensor.storage.failed_reads import note_read
from oplib.tensor.storage.known import find_value
from oplib.tensor.upcalls import upcalls
from oplib.tracebacks import entry_point

if TYPE_CHECKING:
    from oplib.tensor.storage.storage import Storage

_API_VERSIONS = (None, "2021.12", "2022.12", "2023.12", "2024.12")


class TensorValues:
    """Mixin with the conversions to numpy, Python numbers, dlpack and JAX."""

    _storage: Storage
    _requires_grad: bool

    if TYPE_CHECKING:

        @property
        def array(self) -> Any:
            """See Tensor."""

    __array_priority__ = 1000  # the Tensor computes operators with a numpy array

    def _read(self, what: str) -> Any:
        """Returns an array with values."""
        array = self.array
        if isinstance(array, Tracer):
            if (value := find_value(array)) is not None:
                return value
            if not is_inside_trace():
                raise ConcreteValueError(
                    f"{what}: the tensor was made inside a traced function and is used outside of it. Got "
                    f"{describe(array)}, whose value existed only while the function was traced. Return it "
                    "from the function."
                )
            raise note_read(
                ConcreteValueError(
                    f"{what}: a traced tensor has no values yet. Got {describe(array)}. Choose by "
                    "oplib.where or oplib.cond, return the value, or move the line out of the function."
                )
            )
        return array

    def _read_item(self, what: str) -> Any:
        """Returns the item of a tensor that has only one as a Python number; None for other tensors."""
        state = modes.state
        is_plain = state.region is None and state.tracing is None
        if is_plain and (number := self._storage.read_item()) is not None:
            return number
        array = self._read(what)
        return array.item() if array.size == 1 else None

    def _refuse_history(self, what: str, cure: str) -> None:
        if self._requires_grad and modes.grad_enabled:
            raise AutogradError(
                f"{what}: Can't call {what} on Tensor that requires grad, the result would have no history. "
                f"Got {describe(self)}. {cure}"
            )

    @entry_point
    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Returns the values as a read-only numpy array. On the CPU nothing is copied.

        Args:
            force: also read a tensor that requires grad, as ``detach().numpy()`` does.

        Raises:
            AutogradError: the tensor requires grad, and grad mode is on.
            ConcreteValueError: the tensor is traced.

        Example:
            >>> import oplib
            >>> oplib.tensor([1.0, 2.0]).numpy()
            array([1., 2.], dtype=float32)
        """
        if not force:
            self._refuse_history("numpy()", "Use tensor.detach().numpy() instead.")
        values = np.asarray(self._read("numpy()"))
        values.flags.writeable = False
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        self._refuse_history("numpy()", "Use tensor.detach().numpy() instead.")
        return np.array(self._read("numpy()"), dtype=dtype, copy=copy)

    def __jax_array__(self) -> Any:
        if is_asked_by_operator(inspect.currentframe()):
            return self
        self._refuse_history(
            "a JAX function",
            "Use tensor.array or tensor.detach() for the values, or an op of oplib for a gradient.",
        )
        return self.array

    def __dlpack__(self, **options: Any) -> Any:
        if self._requires_grad:
            raise BufferError(
                f"__dlpack__: Can't export tensors that require gradient. "
                f"Got {describe(self)}. Use tensor.detach()."
            )
        return self._read("__dlpack__").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[Any, int]:
        return self._read("__dlpack_device__").__dlpack_device__()

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        if api_version not in _API_VERSIONS:
            raise ArgumentValueError(
                f"__array_namespace__: there is no such version. Got {api_version!r}. There are "
                f"{', '.join(filter(None, _API_VERSIONS))}."
            )
        return upcalls.array_api

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Returns the tensor on another device, as ``to`` does; the array API standard asks for this name.

        Args:
            device: the device.
            stream: None; JAX has no streams.

        Raises:
            ArgumentValueError: a stream is given.

        Example:
            >>> import oplib
            >>> oplib.ones(2).to_device("cpu").device.type
            'cpu'
        """
        if stream is not None:
            raise ArgumentValueError(f"to_device: JAX has no streams. Got {describe(stream)}. Leave it out.")
        moved: Any = self
        return moved.to(device)

    def item(self) -> bool | int | float | complex:
        """Returns the value of a tensor with one item as a Python number.

        Raises:
            ArgumentValueError: the tensor has another number of items.
            ConcreteValueError: the tensor is traced.

        Example:
            >>> import oplib
            >>> oplib.tensor([2.5]).item()
            2.5
        """
        number = self._read_item("item()")
        if number is None:
            array = self._storage.array
            raise ArgumentValueError(  # torch raises this kind for float(tensor)
                f"item(): a Tensor with {array.size} elements cannot be converted to Scalar. "
                f"Got {describe(array)}. Use tensor.tolist()."
            )
        return number

    def tolist(self) -> Any:
        """Returns the values as nested lists of Python numbers; one number for a tensor without dimensions.

        Raises:
            ConcreteValueError: the tensor is traced.

        Example:
            >>> import oplib
            >>> oplib.tensor([[1, 2], [3, 4]]).tolist()
            [[1, 2], [3, 4]]
        """
        return np.asarray(self._read("tolist()")).tolist()

    def __bool__(self) -> bool:
        number = self._read_item("bool()")
        if number is None:
            array = self._storage.array
            many = "more than one value" if array.size else "no values"
            raise ArgumentError(
                f"bool(): Boolean value of Tensor with {many} is ambiguous. Got {describe(array)}. "
                f"Compare one item, or reduce the tensor first."
            )
        return bool(number)

    def __int__(self) -> int:
        number: Any = self.item()
        return int(number)

    def __float__(self) -> float:
        number: Any = self.item()
        return float(number)

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        number = self.item() if self._storage.array.size == 1 else None
        if not isinstance(number, int):
            raise ArgumentTypeError(
                f"index: only integer tensors of a single element can be converted to an index. "
                f"Got {describe(self)}. Convert it: int(tensor). Of a list or tuple that "
                "meets a Tensor, such as ctx.saved_tensors, take an item."
            )
        return int(number)  # a bool is not accepted as an index

    def __format__(self, format_spec: str) -> str:
        array = self._storage.array
        if not format_spec and (array.ndim or isinstance(array, Tracer)):
            return str(self)
        if array.ndim:
            raise ArgumentTypeError(
                f"format: unsupported format string passed to Tensor.__format__. Got {format_spec!r} for "
                f"{describe(array)}. Format one item, or set oplib.set_printoptions."
            )
        return format(self.item(), format_spec)


# Operators with an array on the left ------------------------------------------------------------------------

# JAX's arrays call ``__jax_array__`` of their right operand and then compute by themselves. The gradient
# would be lost, and the type of a product would depend on the order of its factors. If this method returns
# an object that is not an array, JAX gives up and Python asks the Tensor. So the method has to know its
# caller. JAX has no priority of operands as numpy has.
_OPERATORS = (
    *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow"),
    *("and", "or", "xor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge"),
)


def is_asked_by_operator(frame: FrameType | None) -> bool:
    """Returns whether an operator of an array on the left asks for the conversion."""
    caller = None if frame is None else frame.f_back
    return caller is not None and caller.f_code in _find_operators()


@lru_cache(maxsize=1)
def _find_operators() -> frozenset[CodeType]:
    """The code of the operators of JAX's arrays, which its tracers share."""
    methods = [
        getattr(kind, f"__{name}__", None) for kind in jax.Array.__subclasses__() for name in _OPERATORS
    ]
    return frozenset(method.__code__ for method in methods if inspect.isfunction(method))
