"""Reading shapes from arguments, and filling an array with one value."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, ArgumentTypeError, DtypeError, describe
from oplib.protocols import Values
from oplib.tensor.devices.device import is_abstract, jax_config
from oplib.tensor.devices.forked import check_process
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.devices.placement import Placement, placement_like
from oplib.tensor.dtypes.rules import COMPLEX, INTEGRAL, check_range, saturate
from oplib.tensor.storage.constants import is_shareable, share_array, shared_arrays
from oplib.tensor.storage.escape import is_inside_trace
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.storage.known import note_computation, run_noted

from .keywords import take_named
from .symbolic import has_symbols, is_symbolic

_FROM_HOST = 2**16  # arrays up to this size come from the host: a computation compiles again for each shape
_NUMBERS = frozenset({bool, int, float})


def read_size(op: str, size: Values, named: Any = None) -> tuple[int, ...]:
    """Returns the shape given as ``f(2, 3)``, ``f((2, 3))``, ``f([2, 3])`` or ``f(size=(2, 3))``.

    Raises:
        ArgumentTypeError: no size is given, an item is not an integer, or the size is given by position and
            by keyword.
        ArgumentError: an item is negative.
    """
    if named is not None:
        size = (take_named(op, "size", named, size),)
    if not size:
        raise ArgumentTypeError(
            f"{op}() missing 1 required positional argument: 'size'. Got none. Write {op}(2, 3), or {op}(()) "
            "for one without dimensions."
        )
    lengths = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    for number in lengths:
        if number.__class__ is not int or number < 0:
            break
    else:
        return tuple(lengths)
    try:
        shape = tuple(
            [
                number if is_symbolic(number) else _read_length(index, number)
                for index, number in enumerate(lengths)
            ]
        )
    except TypeError:
        raise ArgumentTypeError(
            f"{op}: argument 'size' is made of integers. Got {describe(lengths)}. Write {op}(2, 3) or "
            f"{op}((2, 3)), and give what is no length by name."
        ) from None
    if any(length < 0 for length in shape if not is_symbolic(length)):
        raise ArgumentError(
            f"{op}: no dimension has a negative length. Got size {shape}. Use 0 for an empty one."
        )
    return shape


def _read_length(index: int, length: Any) -> int:
    """Reads one length. As in torch, a bool is accepted as 0 or 1, but not as the first length."""
    if not index and isinstance(length, bool):
        raise TypeError
    return operator.index(length)


def fill(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any], placement: Placement) -> jax.Array:
    """Returns an array of one value.

    Raises:
        ArgumentError: the value has dimensions.
        DtypeError: the dtype does not hold the value.
    """
    check_process()
    if value.__class__ not in _NUMBERS or is_inside_trace():
        return _make_filled(shape, value, dtype, placement)
    # The text tells -0.0 from 0.0. A context manager of the caller may have changed the default device.
    key = (shape, value or str(value), dtype, placement, jax_config.jax_default_device)
    shared = shared_arrays.get(key)
    return share_array(key, _make_filled(shape, value, dtype, placement)) if shared is None else shared


def fill_like(array: Any, value: Any) -> jax.Array:
    """Returns an array of one value in the shape, dtype and placement of another, see :func:`fill`."""
    shared = find_shared_like(array, value)
    return fill(array.shape, value, array.dtype, placement_like(array, None)) if shared is None else shared


def find_shared_like(array: Any, value: Any) -> jax.Array | None:
    """Returns the shared array that :func:`fill_like` returns; None if there is none for these arguments."""
    check_process()
    if value.__class__ not in _NUMBERS or is_inside_trace() or is_abstract(array):
        return None
    shape, dtype = array.shape, array.dtype
    default = jax_config.jax_default_device
    # `fill` shares the array under another key, which needs the placement. Finding that here would double the
    # time of a call.
    key = (shape, value or str(value), dtype, array.committed, array.sharding, default)
    shared = shared_arrays.get(key)
    if shared is None and is_shareable(array):
        shared = share_array(key, fill(shape, value, dtype, placement_like(array, None)))
    return shared


def _make_filled(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any], placement: Placement) -> jax.Array:
    if not isinstance(value, (bool, int, float)):
        value = to_array(value, None, None)
        if value.ndim:
            raise ArgumentError(
                f"full: argument 'fill_value' is one value. Got {describe(value)}. Use expand for a tensor."
            )
        if value.dtype in COMPLEX and dtype not in COMPLEX:
            raise DtypeError(
                f"full: {dtype.name} cannot hold a complex value. Got {value}. Choose a complex dtype."
            )
    elif isinstance(value, int) and dtype in INTEGRAL:
        check_range(np.asarray(value), dtype)
    if has_symbols(shape) or math.prod(shape) > _FROM_HOST or isinstance(value, jax.Array):
        require_memory("full", shape, dtype)
        make = partial(jnp.full, shape, dtype=dtype, device=placement)
        return run_noted(lambda item: (make(item),), value)[0]
    values = saturate(np.full(shape, value), dtype).astype(dtype)
    made = jax.device_put(values, placement)
    note_computation((made,), lambda: (values,))
    return made
