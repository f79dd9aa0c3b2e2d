"""Tensors from a shape and a rule: zeros, ones, full, eye, arange, linspace and logspace."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Protocol, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, describe
from oplib.protocols import Values
from oplib.tensor.devices.memory import require_memory
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
from oplib.tensor.storage.factory_options import FactoryOptions, ReadOptions, factory, read_options
from oplib.tensor.storage.ingestion import to_array
from oplib.tensor.storage.known import run_noted
from oplib.tensor.tensor import Tensor, box_leaf, box_new


class SizedFactory(Protocol):
    """A factory of a shape, for type checkers."""

    def __call__(self, *sizes: Any, size: Any = None, **options: Unpack[FactoryOptions]) -> Tensor:
        """Makes a Tensor."""
        ...


def _make_filled(name: str, value: int, what: str, example: str) -> SizedFactory:
    def filled(*sizes: Any, size: Any = None, **options: Unpack[FactoryOptions]) -> Tensor:
        shape = read_size(name, sizes, size)
        return _fill(shape, value, read_options(name, options, len(shape)))

    filled.__name__ = filled.__qualname__ = name
    filled.__doc__ = f"Makes a tensor {what}\n\nExample:\n{example}"
    return factory(filled)


zeros = _make_filled(
    "zeros", 0, "of zeros.", "    >>> zeros(2, 3)\n    tensor([[0., 0., 0.],\n            [0., 0., 0.]])"
)
ones = _make_filled("ones", 1, "of ones.", "    >>> ones((2,))\n    tensor([1., 1.])")
empty = _make_filled(
    "empty", 0, "without defined values. In oplib they are zeros.", "    >>> empty(2, 3).shape\n    (2, 3)"
)


@factory
def full(size: Any, fill_value: Any, **options: Unpack[FactoryOptions]) -> Tensor:
    """Makes a tensor filled with one value.

    Args:
        size: the shape, as one sequence or integer.
        fill_value: a number, or a tensor without dimensions.
        dtype: by default it follows from the value: bool, the default integer, floating or complex dtype.

    Raises:
        ArgumentError: the size has a value that is not an integer or is negative, or the fill value has
            dimensions.
        DtypeError: the dtype is not available, or does not hold the value.

    Example:
        >>> full((2,), 7)
        tensor([7, 7])
    """
    shape = read_size("full", (size,))
    return _fill(
        shape, fill_value, read_options("full", options, len(shape), lambda: _find_dtype(fill_value))
    )


def _find_dtype(value: Any) -> np.dtype[Any]:
    kind = value.__class__
    return scalar_dtype(kind) if kind in PYTHON_NUMBERS else result_type(value)


def _fill(shape: tuple[int, ...], value: Any, options: ReadOptions) -> Tensor:
    dtype, placement, requires_grad = options
    return box_new(fill(shape, value, dtype, placement), requires_grad)


@factory
def eye(n: int, m: int | None = None, **options: Unpack[FactoryOptions]) -> Tensor:
    """Makes a matrix with ones on its diagonal.

    Args:
        n: number of rows.
        m: number of columns; by default ``n``.

    Raises:
        ArgumentError: ``n`` or ``m`` is not an integer, or is negative.

    Example:
        >>> eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    rows, columns = read_size("eye", (n, n if m is None else m))
    dtype, placement, requires_grad = read_options("eye", options, 2)
    require_memory("eye", (rows, columns), dtype)
    make = partial(_make_eye, rows, columns, dtype=dtype)
    return box_new(run_noted(lambda: (jax.device_put(make(), placement),))[0], requires_grad)


@partial(jax.jit, static_argnums=(0, 1), static_argnames="dtype")
def _make_eye(rows: int, columns: int, dtype: Any) -> Any:  # a conversion of bools takes six times as long
    return jnp.where(jnp.eye(rows, columns, dtype=bool), *np.array([1, 0], dtype))


@factory
def arange(start: Any = None, end: Any = None, step: Any = 1, **options: Unpack[FactoryOptions]) -> Tensor:
    """Makes the numbers from ``start`` up to, but not including, ``end``; ``arange(end)`` starts at 0.

    Args:
        start: the first number; the end if it is the only argument.
        end: the bound. As a keyword it may be the only argument.
        step: the difference between two numbers, not zero.
        dtype: by default the default integer dtype if all three are integers, else the default dtype.

    Returns:
        A leaf of shape ``(ceil((end - start) / step),)``.

    Raises:
        ArgumentTypeError: neither ``start`` nor ``end`` is given.
        ArgumentError: the step is zero, or has the wrong sign.
        DtypeError: the dtype is not available, or does not hold the numbers.

    Example:
        >>> arange(3)
        tensor([0, 1, 2])
        >>> arange(1, 2, 0.25)
        tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    if start is None and end is None:
        raise ArgumentTypeError("arange: argument 'end' is missing. Got no bound. Write arange(end).")
    bounds = (0, start if end is None else end, step) if start is None or end is None else (start, end, step)
    are_whole = True
    if not has_symbols(bounds):
        bounds = tuple(_read_number("arange", number, (int, float)) for number in bounds)
        are_whole = all(isinstance(number, int) for number in bounds)
    read = read_options("arange", options, 1, default_int_dtype if are_whole else get_default_dtype)
    dtype, _, requires_grad = read
    if has_symbols(bounds):
        return box_leaf(jnp.arange(*bounds, dtype=dtype), requires_grad)
    return _box_numbers(_list_numbers(*bounds, dtype=dtype), read)


def _list_numbers(first: Any, last: Any, distance: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Computes the numbers of a range in 64 bits."""
    if not all(map(math.isfinite, (first, last, distance))):
        raise ArgumentError(
            f"arange: unsupported range. Got {first}, {last}, step={distance}. Give finite numbers."
        )
    if dtype == np.int64:  # torch cuts these before it counts
        first, last, distance = _cut_fractions(dtype, first, last, distance)
    if distance == 0 or (last - first) * distance < 0:
        raise ArgumentValueError(
            f"arange: argument 'step' leads from start to end. Got {first}, {last}, step={distance}. "
            f"Give a step of the sign of end - start."
        )
    whole = all(isinstance(number, int) for number in (first, last, distance))
    count = -((first - last) // distance) if whole else math.ceil((last - first) / distance)
    first, distance = _cut_fractions(dtype, first, distance)
    require_memory("arange", (count,), np.dtype(np.int64))
    return first + distance * np.arange(count, dtype=np.int64 if whole else np.float64)


def _cut_fractions(dtype: Any, *ends: Any) -> Values:
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


def _box_numbers(numbers: np.ndarray[Any, Any], options: ReadOptions) -> Tensor:
    dtype, placement, requires_grad = options
    if numbers.dtype == np.int64 and dtype in INTEGRAL:
        check_range(numbers, dtype)
    return box_leaf(to_array(numbers, dtype, placement), requires_grad)


@factory
def linspace(start: Any, end: Any, steps: int, **options: Unpack[FactoryOptions]) -> Tensor:
    """Makes ``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    Args:
        start: the first number.
        end: the last number.
        steps: the number of results.
        dtype: by default the default dtype, or its complex counterpart for complex ends.

    Raises:
        ArgumentError: ``steps`` is not an integer, or is negative.

    Example:
        >>> linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    return _space_evenly("linspace", start, end, steps, options)


@factory
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, **options: Unpack[FactoryOptions]
) -> Tensor:
    """Makes ``steps`` numbers with equal ratios from ``base ** start`` to ``base ** end``, both included.

    Args:
        start: the exponent of the first number.
        end: the exponent of the last number.
        steps: the number of results.
        base: the base of the powers.
        dtype: by default the default dtype, or its complex counterpart for complex ends.

    Raises:
        ArgumentError: ``steps`` is not an integer, or is negative.

    Example:
        >>> logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    return _space_evenly("logspace", start, end, steps, options, base)


def _space_evenly(
    op: str, start: Any, end: Any, steps: int, options: FactoryOptions, base: float | None = None
) -> Tensor:
    (count,) = read_size(op, (steps,))
    ends = [_read_number(op, number, (int, float, complex)) for number in (start, end)]
    require_memory(op, (count,), np.dtype(np.float64))
    low, high = _cut_fractions(options.get("dtype"), *ends)
    numbers = np.linspace(low, high, count)
    numbers = numbers if base is None else np.power(base, numbers)
    return _box_numbers(numbers, read_options(op, options, 1, lambda: scalar_dtype(numbers.dtype.type)))
