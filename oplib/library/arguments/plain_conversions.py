"""Conversion of given values to the values that a kernel gets, for the types without parts.

A converter returns a value of its type, or raises :class:`UnfitError`. Its caller knows the op and the
argument, and writes the message.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from oplib.library.schema import is_int64
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.devices.device import Device
from oplib.tensor.dtypes.rules import holds_numbers, normalize_dtype
from oplib.tensor.random.generator import Generator, is_key
from oplib.tensor.storage.known import find_value

Converter = Callable[[Any], Any]

PYTHON_NUMBERS = (int, float, complex)
TRACED = "Its value is traced, so it is not known"
_ARRAYS = (jax.Array, Tensor, np.ndarray, np.generic)
WOULD_CUT = (
    "It requires grad, and as a number it would lose its gradient: pass tensor.item() or tensor.detach()"
)


class UnfitError(Exception):
    """A value that does not fit its type; the text is advice, or empty."""


def is_array(value: object) -> bool:
    """Tells whether a value is a Tensor, an array, a tracer or a ``jax.ShapeDtypeStruct``."""
    if isinstance(value, _ARRAYS):
        return not isinstance(value, jax.Ref)
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, jax.Ref)


def _read_element(value: Any, *kinds: Any) -> Any:
    """Returns the number in an array of one element whose dtype has one of these kinds."""
    if not is_array(value) or not any(jnp.issubdtype(value.dtype, kind) for kind in kinds):
        raise UnfitError
    if np.prod(value.shape, dtype=int) != 1:
        raise UnfitError
    array = find_value(value._storage.array) if isinstance(value, Tensor) else value
    if array is None or isinstance(array, Tracer):
        raise UnfitError(TRACED)
    if isinstance(value, Tensor) and value._requires_grad and modes.grad_enabled:
        raise UnfitError(WOULD_CUT)
    if not hasattr(array, "item"):
        raise UnfitError
    return array.item()


def _is_symbolic(value: Any) -> bool:
    """Tells whether this is a dimension of a shape that ``jax.export`` exports without its value."""
    export = sys.modules.get("jax.export")  # who has such a dimension has imported it
    return export is not None and isinstance(getattr(value, "scope", None), export.SymbolicScope)


def to_int(value: Any) -> int:
    """Converts an int, a bool or a real array of one element without a fraction, if it fits 64 bits.

    A symbolic dimension is an int too, and stays as it is. torch drops the fraction of an array, and refuses
    a Python float of any value.
    """
    if isinstance(value, float):  # numpy's float64 is a float too
        raise UnfitError
    if not isinstance(value, int) and _is_symbolic(value):
        return value
    number = value if isinstance(value, int) else _read_element(value, jnp.integer, jnp.bool_, jnp.floating)
    if isinstance(number, float) and not number.is_integer():
        raise UnfitError("Its fraction would be lost")
    number = value if isinstance(value, int) and isinstance(value, enum.Enum) else int(number)
    if not is_int64(number):
        raise UnfitError("It does not fit 64 bits")
    return number  # a member of an enum is still one


def to_float(value: Any) -> float:
    """Converts any real number, or a real array of one element."""
    if isinstance(value, (int, float)):
        return float(value)
    return float(_read_element(value, jnp.integer, jnp.bool_, jnp.floating))


def to_bool(value: Any) -> bool:
    """Converts a bool, another real number, or a real array of one element."""
    if isinstance(value, (int, float)):
        return bool(value)
    return bool(_read_element(value, jnp.integer, jnp.bool_, jnp.floating))


def to_complex(value: Any) -> complex:
    """Converts any number, or an array of one element."""
    if isinstance(value, PYTHON_NUMBERS):
        return complex(value)
    return complex(_read_element(value, jnp.number, jnp.bool_))


def to_scalar(value: Any) -> Any:
    """Returns a Python number unchanged; numpy's float64 and complex128 are Python numbers too."""
    if isinstance(value, PYTHON_NUMBERS):
        return value.item() if isinstance(value, np.generic) else value
    raise UnfitError("Take its value out with .item()" if is_array(value) else "")


# The other types without parts ------------------------------------------------------------------------------


def to_str(value: Any) -> str:
    """Accepts a str, or bytes of UTF-8."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise UnfitError(f"It is not UTF-8: {error}") from None
    raise UnfitError


def to_dtype(value: Any) -> Any:
    """Accepts a dtype object, or a scalar type of ``jax.numpy``, which stands for a dtype there."""
    if isinstance(value, type):
        value = getattr(value, "dtype", None)  # a descriptor for numpy's own scalar types
    if isinstance(value, np.dtype):
        return normalize_dtype(value)
    raise UnfitError


def to_named_dtype(value: Any) -> Any:
    """Accepts the name of a dtype too, such as ``"bfloat16"``."""
    if not isinstance(value, str):
        return to_dtype(value)
    try:
        return normalize_dtype(jnp.dtype(value))
    except TypeError:
        raise UnfitError("No dtype has this name") from None


def to_device(value: Any) -> Device:
    """Accepts a device, its spelling, or a ``jax.Device``."""
    if isinstance(value, Device):
        return value
    if isinstance(value, (str, jax.Device)):
        return Device(value)
    raise UnfitError


def to_generator(value: Any) -> Any:
    """Accepts a Generator, or a key of JAX, unchanged."""
    if isinstance(value, Generator) or is_key(value):
        return value
    raise UnfitError


def to_enum(value: Any) -> enum.Enum:
    """Accepts a member of any enum."""
    if isinstance(value, enum.Enum):
        return value
    raise UnfitError


def to_tensor(value: Any) -> Any:
    """Accepts a possible tensor unchanged; the op decides whether it may be an array or a number."""
    if type(value) is Tensor or isinstance(value, (jax.Array, Tensor)):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        if holds_numbers(value.dtype):
            return value
        raise UnfitError(f"An array of {value.dtype} holds no numbers")
    if is_foreign(value):
        raise UnfitError("Convert it: oplib.tensor(t)")
    if is_array(value) and not hasattr(value, "__jax_array__"):
        return value
    if isinstance(value, PYTHON_NUMBERS):
        return value
    if hasattr(value, "__jax_array__"):
        return convert_to_array(value)
    raise UnfitError


def convert_to_array(value: Any) -> Any:
    """Returns the array of an object that JAX takes for one, such as a variable of flax.nnx.

    Raises:
        TypeError: the value has no array.
    """
    if value.__jax_array__ is None:  # of a tracer that stands for such a value
        raise TypeError(
            f"a value of the HiType {jax.typeof(value)} is no array. Ops take and return arrays. Use those "
            "of the value, and make it again from the results."
        )
    return value.__jax_array__()


def is_foreign(value: Any) -> bool:
    """Tells whether a value is an array of another library, such as torch, that JAX does not accept."""
    if isinstance(value, _ARRAYS) or not is_array(value) or hasattr(value, "__jax_array__"):
        return False
    is_of_jax = type(value).__module__.partition(".")[0] == "jax"
    return not is_of_jax and not isinstance(value.dtype, (np.dtype, type))


def to_anything(value: Any) -> Any:
    """Returns the value unchanged."""
    return value


CONVERTERS: dict[str, Converter] = {
    "Tensor": to_tensor,
    "int": to_int,
    "float": to_float,
    "bool": to_bool,
    "str": to_str,
    "complex": to_complex,
    "Scalar": to_scalar,
    "ScalarType": to_named_dtype,
    "Device": to_device,
    "Generator": to_generator,
    "Enum": to_enum,
    "Any": to_anything,
    "Tree": to_anything,
}


def _to_any_scalar(value: Any) -> Any:
    return to_scalar(value.item() if isinstance(value, np.generic) else value)


def _to_known_int(value: Any) -> int:
    if isinstance(value, Tensor) and find_value(value._storage.array) is None:
        value.item()  # raises, and a program then names the line that needs the value
    return to_int(value)


def _to_any_dtype(value: Any) -> Any:
    is_of_python = isinstance(value, type) and value in (bool, *PYTHON_NUMBERS)
    return normalize_dtype(value) if is_of_python else to_dtype(value)


# For the built-in ops: torch's functions accept more than its ``torch.ops``, namely any of numpy's numbers as
# a Scalar, and Python's types as a dtype.
GENEROUS_CONVERTERS = CONVERTERS | {
    "int": _to_known_int,
    "Scalar": _to_any_scalar,
    "ScalarType": _to_any_dtype,
}
