"""Tensors from a shape and a rule: zeros, ones, full, eye, arange, linspace and logspace."""

from __future__ import annotations

import math
from typing import Any, Unpack

import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, describe
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.devices.placement import find_placement
from oplib.tensor.dtypes.promotion import result_type
from oplib.tensor.dtypes.rules import (
    INTEGRAL,
    PYTHON_NUMBERS,
    check_range,
    default_int_dtype,
    get_default_dtype,
    normalize_dtype,
    scalar_dtype,
)
from oplib.tensor.shapes.filling import fill, read_size
from oplib.tensor.shapes.symbolic import has_symbols
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.storage.memory_format import MemoryOptions, check_memory
from oplib.tensor.tensor import Tensor, box_leaf
from oplib.tracebacks import entry_point


def _dtype_or_default(dtype: Any) -> np.dtype[Any]:
    return get_default_dtype() if dtype is None else normalize_dtype(dtype)


_FILLED = """Makes a tensor {what}

    Args:
        *sizes: the shape, as integers or as one sequence.
        size: the shape as one sequence, by keyword.
        dtype: by default the default dtype.
        device: a Device or its spelling, a ``jax.Device`` or ``Sharding``; by default JAX's choice.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Returns:
        A new leaf.

    Raises:
        ArgumentError: the size has a value that is not an integer or is negative, or is given twice.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.

    Gradient:
        None: no input is differentiable.

    Source:
        torch.{name}

    Example:
        >>> {name}{given}
        {shown}
    """


def _make_filled(name: str, value: int, what: str, *example: str):
    @entry_point
    def filled(
        *sizes: Any,
        size: Any = None,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        **memory: Unpack[MemoryOptions],
    ) -> Tensor:
        shape, found = read_size(name, sizes, size), _dtype_or_default(dtype)
        if memory:
            check_memory(name, memory, len(shape))
        return _fill(shape, value, found, device=device, requires_grad=requires_grad)

    given, shown = example
    filled.__name__ = filled.__qualname__ = name
    filled.__doc__ = _FILLED.format(name=name, what=what, given=given, shown=shown)
    return filled


zeros = _make_filled(
    "zeros", 0, "of zeros.", "(2, 3)", "tensor([[0., 0., 0.],\n                [0., 0., 0.]])"
)
ones = _make_filled("ones", 1, "of ones.", "((2,))", "tensor([1., 1.])")
empty = _make_filled("empty", 0, "without defined values. In oplib they are zeros.", "(2, 3).shape", "(2, 3)")


@entry_point
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Makes a tensor filled with one value.

    Args:
        size: the shape, as one sequence or integer.
        fill_value: a number, or a tensor without dimensions.
        dtype: by default it follows from the value: bool, the default integer, floating or complex dtype.
        device: as for :func:`zeros`.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Returns:
        A new leaf.

    Raises:
        ArgumentError: the size has a value that is not an integer or is negative, or the fill value has
            dimensions.
        DtypeError: the dtype is not available, or does not hold the value.
        DeviceError: the device does not exist.

    Gradient:
        None: no input is differentiable.

    Source:
        torch.full

    Example:
        >>> full((2,), 7)
        tensor([7, 7])
    """
    if dtype is not None:
        found = normalize_dtype(dtype)
    else:
        kind = fill_value.__class__
        found = scalar_dtype(kind) if kind in PYTHON_NUMBERS else result_type(fill_value)
    shape = read_size("full", (size,))
    if memory:
        check_memory("full", memory, len(shape))
    return _fill(shape, fill_value, found, device=device, requires_grad=requires_grad)


def _fill(
    shape: tuple[int, ...], value: Any, dtype: np.dtype[Any], *, device: Any, requires_grad: bool
) -> Tensor:
    return box_leaf(fill(shape, value, dtype, find_placement(device)), requires_grad)


@entry_point
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Makes a matrix with ones on its diagonal.

    Args:
        n: number of rows.
        m: number of columns; by default ``n``.
        dtype: by default the default dtype.
        device: as for :func:`zeros`.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Raises:
        ArgumentError: ``n`` or ``m`` is not an integer, or is negative.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.

    Example:
        >>> eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    check_memory("eye", memory, 2)
    rows, columns = read_size("eye", (n, n if m is None else m))
    require_memory("eye", (rows, columns), _dtype_or_default(dtype))
    diagonal = jnp.eye(rows, columns, dtype=_dtype_or_default(dtype), device=find_placement(device))
    return Tensor.from_array(diagonal, requires_grad=requires_grad)


@entry_point
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Makes the numbers from ``start`` up to, but not including, ``end``; ``arange(end)`` starts at 0.

    Args:
        start: the first number; the end if it is the only argument.
        end: the bound. As a keyword it may be the only argument.
        step: the difference between two numbers, not zero.
        dtype: by default the default integer dtype if all three are integers, else the default dtype.
        device: as for :func:`zeros`.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Returns:
        A tensor of shape ``(ceil((end - start) / step),)``.

    Raises:
        ArgumentTypeError: neither ``start`` nor ``end`` is given.
        ArgumentError: the step is zero, or has the wrong sign.
        DtypeError: the dtype is not available, or does not hold the numbers.
        DeviceError: the device does not exist.

    Example:
        >>> arange(3)
        tensor([0, 1, 2])
        >>> arange(1, 2, 0.25)
        tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    if memory:
        check_memory("arange", memory, 1)
    if start is None and end is None:
        raise ArgumentTypeError("arange: argument 'end' is missing. Got no bound. Write arange(end).")
    given = (0, start if end is None else end, step) if start is None or end is None else (start, end, step)
    if has_symbols(given):
        kind = normalize_dtype(default_int_dtype() if dtype is None else dtype)
        return Tensor.from_array(jnp.arange(*given, dtype=kind), requires_grad=requires_grad)
    first, last, distance = (_read_number("arange", number, (int, float)) for number in given)
    if not all(map(math.isfinite, (first, last, distance))):
        raise ArgumentError(
            f"arange: unsupported range. Got {first}, {last}, step={distance}. Give finite numbers."
        )
    if dtype is not None and normalize_dtype(dtype) == np.int64:  # torch cuts these before it counts
        first, last, distance = _cut_fractions(dtype, first, last, distance)
    if distance == 0 or (last - first) * distance < 0:
        raise ArgumentValueError(
            f"arange: argument 'step' leads from start to end. Got {first}, {last}, step={distance}. "
            f"Give a step of the sign of end - start."
        )
    whole = all(isinstance(number, int) for number in (first, last, distance))
    if dtype is None:
        dtype = default_int_dtype() if whole else get_default_dtype()
    count = -((first - last) // distance) if whole else math.ceil((last - first) / distance)
    first, distance = _cut_fractions(dtype, first, distance)
    require_memory("arange", (count,), np.dtype(np.int64))
    numbers = first + distance * np.arange(count, dtype=np.int64 if whole else np.float64)
    return _box_numbers(numbers, dtype, device, requires_grad)


def _cut_fractions(dtype: Any, *ends: Any) -> tuple[Any, ...]:
    """Truncates the bounds of an integer range, as torch does."""
    is_whole = dtype is not None and normalize_dtype(dtype) in INTEGRAL
    return tuple(int(end.real) for end in ends) if is_whole else ends


def _read_number(op: str, value: Any, kinds: tuple[type, ...]) -> Any:
    """Reads a bound that may be a numpy scalar or tensor. A traced one raises: a shape depends on it."""
    number = value.item() if hasattr(value, "item") else value
    if not isinstance(number, kinds):
        raise ArgumentError(
            f"{op}: bounds and steps are numbers. Got {describe(value)}. Give one value for each."
        )
    return number


def _box_numbers(numbers: np.ndarray[Any, Any], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    found = normalize_dtype(scalar_dtype(numbers.dtype.type) if dtype is None else dtype)
    if numbers.dtype == np.int64 and found in INTEGRAL:
        check_range(numbers, found)
    return Tensor.from_array(to_array(numbers, found, find_placement(device)), requires_grad=requires_grad)


@entry_point
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Makes ``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    Args:
        start: the first number.
        end: the last number.
        steps: the number of results.
        dtype: by default the default dtype, or its complex counterpart for complex ends.
        device: as for :func:`zeros`.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Raises:
        ArgumentError: ``steps`` is not an integer, or is negative.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.

    Example:
        >>> linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    check_memory("linspace", memory, 1)
    numbers = _space_evenly("linspace", start, end, steps, dtype)
    return _box_numbers(numbers, dtype, device, requires_grad)


@entry_point
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **memory: Unpack[MemoryOptions],
) -> Tensor:
    """Makes ``steps`` numbers with equal ratios from ``base ** start`` to ``base ** end``, both included.

    Args:
        start: the exponent of the first number.
        end: the exponent of the last number.
        steps: the number of results.
        base: the base of the powers.
        dtype: by default the default dtype, or its complex counterpart for complex ends.
        device: as for :func:`zeros`.
        requires_grad: whether the result collects gradients.
        **memory: torch's options of memory, which change nothing: ``layout``, ``pin_memory``.

    Raises:
        ArgumentError: ``steps`` is not an integer, or is negative.
        DtypeError: the dtype is not available.
        DeviceError: the device does not exist.

    Example:
        >>> logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    check_memory("logspace", memory, 1)
    numbers = np.power(base, _space_evenly("logspace", start, end, steps, dtype))
    return _box_numbers(numbers, dtype, device, requires_grad)


def _space_evenly(op: str, start: Any, end: Any, steps: int, dtype: Any) -> np.ndarray[Any, Any]:
    (count,) = read_size(op, (steps,))
    first, last = (_read_number(op, number, (int, float, complex)) for number in (start, end))
    low, high = _cut_fractions(dtype, first, last)
    require_memory(op, (count,), np.dtype(np.float64))
    return np.linspace(low, high, count)
