"""Rules of dtypes: which are supported, which are defaults, and that no conversion silently loses values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import DtypeError, describe
from oplib.tensor.upcalls import upcalls
from oplib.tracebacks import entry_point

from . import names as dtypes

HALF = frozenset({dtypes.float16, dtypes.bfloat16})
FLOATING = HALF | {dtypes.float32, dtypes.float64}
FLOAT8 = frozenset({dtypes.float8_e4m3fn, dtypes.float8_e4m3fnuz, dtypes.float8_e5m2, dtypes.float8_e5m2fnuz})
COMPLEX = frozenset({dtypes.complex64, dtypes.complex128})
SIGNED = frozenset({dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64})
UNSIGNED = frozenset({dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64})
INTEGRAL = SIGNED | UNSIGNED
SUPPORTED = FLOATING | FLOAT8 | COMPLEX | INTEGRAL | {dtypes.bool}

_NARROWED = {  # 64-bit dtypes, and their replacements while x64 is off
    dtypes.float64: dtypes.float32,
    dtypes.int64: dtypes.int32,
    dtypes.uint64: dtypes.uint32,
    dtypes.complex128: dtypes.complex64,
}
_jax_config: Any = jax.config  # its attributes are made at run time
PYTHON_NUMBERS = frozenset({bool, int, float, complex})
_ENABLE = 'turn 64 bits on with jax.config.update("jax_enable_x64", True)'


def saturate(array: Any, dtype: np.dtype[Any]) -> Any:
    """Returns numbers that convert to float8_e4m3fn as in torch: larger ones give its largest, and not NaN.

    The format has no infinity. The other formats of 8 bits convert as in torch.

    Args:
        array: of numpy or JAX, in any dtype but a complex one.
        dtype: that it is converted to next; for others the array is returned.
    """
    if dtype != dtypes.float8_e4m3fn or array.dtype == dtype:
        return array
    return array.astype(np.float32).clip(-448.0, 448.0)


class Defaults:
    """The default floating dtype. As in torch, it belongs to the process."""

    floating: np.dtype[Any] = dtypes.float32


defaults = Defaults()


def get_default_dtype() -> np.dtype[Any]:
    """Returns the dtype of tensors made from Python floats. It is float32 unless set.

    Example:
        >>> get_default_dtype()
        dtype('float32')
    """
    return defaults.floating


@entry_point
def set_default_dtype(dtype: Any) -> None:
    """Sets the dtype of tensors made from Python floats, for all threads. Compiled ops are compiled again.

    Args:
        dtype: a floating dtype.

    Raises:
        DtypeError: the dtype is not floating, or has 64 bits while JAX's x64 is off.

    Source:
        torch.set_default_dtype

    Example:
        >>> import oplib
        >>> set_default_dtype(oplib.bfloat16)
        >>> oplib.tensor(1.5).dtype
        dtype(bfloat16)
        >>> set_default_dtype(oplib.float32)
    """
    checked = normalize_dtype(dtype)
    if checked not in FLOATING:
        raise DtypeError(
            f"set_default_dtype: the default dtype is a floating one. Got {checked.name}. "
            f"Give float16, bfloat16, float32 or float64."
        )
    if checked != defaults.floating:
        defaults.floating = checked
        if "refresh" in vars(upcalls):  # compiled kernels contain the default of the time of their trace
            upcalls.refresh()


def default_complex_dtype() -> np.dtype[Any]:
    """Returns the dtype of tensors made from Python complex numbers."""
    return dtypes.complex128 if defaults.floating == dtypes.float64 else dtypes.complex64


def default_int_dtype() -> np.dtype[Any]:
    """Returns the dtype of tensors made from Python integers: int64 with JAX's x64, else int32."""
    return dtypes.int64 if _jax_config.jax_enable_x64 else dtypes.int32


def scalar_dtype(kind: type) -> np.dtype[Any]:
    """Returns the dtype of a Python number of this type.

    Raises:
        DtypeError: the type is another one.
    """
    if issubclass(kind, float):
        return defaults.floating
    if issubclass(kind, bool):
        return dtypes.bool
    if issubclass(kind, int):
        return default_int_dtype()
    if issubclass(kind, complex):
        return default_complex_dtype()
    raise DtypeError(
        f"dtype: only numbers have one. Got {kind.__name__}. Give a bool, int, float or complex."
    )


def normalize_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype object for a spelling of a dtype, if the dtype is available.

    Args:
        dtype: a dtype object, a numpy or JAX scalar type, a name, or Python's bool, int, float, complex. For
            the latter the result is the widest available dtype, as in JAX.

    Raises:
        DtypeError: tensors do not have such a dtype, or it has 64 bits while JAX's x64 is off.

    Example:
        >>> normalize_dtype("bfloat16"), normalize_dtype(bool)
        (dtype(bfloat16), dtype('bool'))
    """
    normalized = find_dtype(dtype)
    if normalized not in _NARROWED or _jax_config.jax_enable_x64:
        return normalized
    if isinstance(dtype, type) and dtype in PYTHON_NUMBERS:  # in numpy, dtype("float64") == float
        return _NARROWED[normalized]
    raise DtypeError(
        f"dtype: {normalized.name} was asked for while JAX's x64 is off. It would become "
        f"{_NARROWED[normalized].name} silently. Ask for oplib.{_NARROWED[normalized].name}, or {_ENABLE}."
    )


def find_dtype(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype object for a spelling of a dtype, regardless of x64, or raises DtypeError."""
    try:
        normalized = np.dtype(dtype)
    except (TypeError, ValueError, RecursionError):
        normalized = None
    if dtype is None or normalized is None or normalized not in SUPPORTED:  # numpy reads None as float64
        raise DtypeError(
            f"dtype: no tensor has this dtype. Got {describe(dtype)}. "
            f"Use one of {', '.join(sorted(supported.name for supported in SUPPORTED))}."
        )
    return normalized


def holds_numbers(dtype: np.dtype[Any]) -> bool:
    """Tells whether items of a numpy dtype are numbers or bools; those of ml_dtypes are."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and jnp.issubdtype(dtype, jnp.number))


def dtype_of_numpy(array: np.ndarray[Any, Any]) -> np.dtype[Any]:
    """Returns the dtype of a tensor made from a numpy array without ``dtype=``.

    Returns:
        The dtype of the array. 64-bit integers are narrowed if x64 is off and every value fits.

    Raises:
        DtypeError: tensors do not have this dtype, or narrowing would lose values.
    """
    own = array.dtype.newbyteorder("=")
    if own not in SUPPORTED:
        raise DtypeError(
            f"dtype: no tensor has the dtype of this array. Got {describe(array)}. Convert it first."
        )
    if own not in _NARROWED or _jax_config.jax_enable_x64:
        return own
    narrow = _NARROWED[own]
    if own not in INTEGRAL:
        raise DtypeError(
            f"dtype: a {own.name} array while JAX's x64 is off would lose digits. Got {describe(array)}. "
            f"Say dtype=oplib.{narrow.name}, or {_ENABLE}."
        )
    check_range(array, narrow)
    return narrow


def check_range(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> None:
    """Checks that integers fit an integral dtype.

    Raises:
        DtypeError: a value does not fit.
    """
    limits = jnp.iinfo(dtype)
    if array.size and (array.max() > limits.max or array.min() < limits.min):
        raise DtypeError(
            f"dtype: values do not fit {dtype.name}. Got {array.min()} to {array.max()}, and it holds "
            f"{limits.min} to {limits.max}. Choose another dtype"
            + (f", or {_ENABLE}." if not _jax_config.jax_enable_x64 else ".")
        )
