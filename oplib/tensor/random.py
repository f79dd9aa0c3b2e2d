# ruff: noqa: A002  `input` is torch's name
"""Tensors of random numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, ArgumentTypeError, UnsupportedDtypeError, describe

from .dtype_rules import COMPLEX, FLOATING, INTEGRAL, default_int_dtype, get_default_dtype, normalize_dtype
from .dtypes import bool as bool_dtype
from .filling import read_size
from .generator import Generator, read_generator
from .keywords import read_bounds
from .placement import Placement, find_placement, placement_like
from .tensor import Tensor


def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws uniformly from [0, 1).

    Args:
        *sizes: the shape, as integers or as one sequence.
        size: the shape as one sequence, by keyword.
        generator: where the randomness comes from, a Generator or a key; by default the global Generator.
        dtype: a floating or complex dtype, whose two parts are drawn each; by default the default one.
        device: a Device or its spelling, a ``jax.Device`` or ``Sharding``; by default JAX's choice.
        requires_grad: whether the result collects gradients.

    Raises:
        ArgumentError: the size is not made of integers, or negative, or given twice.
        DtypeError: the dtype cannot be had.
        UnsupportedDtypeError: it is not floating.
        DeviceError: there is no such device.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: there is nothing to differentiate by.

    Source:
        torch.rand; the numbers are JAX's.

    Example:
        >>> rand(2, 3).shape
        (2, 3)
    """
    shape = read_size("rand", sizes, size)
    found = get_default_dtype() if dtype is None else normalize_dtype(dtype)
    drawn = _draw_floats("rand", shape, found, generator=generator, placement=find_placement(device))
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the normal distribution of mean 0 and variance 1, complex too.

    Args:
        *sizes: the shape, as integers or as one sequence.
        size: the shape as one sequence, by keyword.
        generator: where the randomness comes from, a Generator or a key; by default the global Generator.
        dtype: a floating or complex dtype; by default the default one.
        device: a Device or its spelling, a ``jax.Device`` or ``Sharding``; by default JAX's choice.
        requires_grad: whether the result collects gradients.

    Returns:
        A new leaf.

    Raises:
        ArgumentError: the size is not made of integers, or negative, or given twice.
        DtypeError: the dtype cannot be had.
        UnsupportedDtypeError: it is neither floating nor complex.
        DeviceError: there is no such device.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: there is nothing to differentiate by.

    Source:
        torch.randn; the numbers are JAX's.

    Example:
        >>> randn(3, requires_grad=True).requires_grad
        True
    """
    shape = read_size("randn", sizes, size)
    found = get_default_dtype() if dtype is None else normalize_dtype(dtype)
    drawn = _draw_floats("randn", shape, found, generator=generator, placement=find_placement(device))
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randint(
    *bounds_and_size: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws integers uniformly: ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        *bounds_and_size: the lowest number (0 if left out), the first one that is too high, and the shape.
        low: the lowest number, by keyword.
        high: the first number that is too high, by keyword.
        size: the shape, by keyword.
        generator: where the randomness comes from; by default the global Generator.
        dtype: by default the default integer dtype.
        device: as for :func:`rand`.
        requires_grad: whether the result collects gradients (of a floating dtype only).

    Raises:
        ArgumentError: wrong arguments, or no number lies between the bounds, or the dtype does not hold them.
        DtypeError: the dtype cannot be had.
        DeviceError: there is no such device.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: there is nothing to differentiate by.

    Source:
        torch.randint; the numbers are JAX's.

    Example:
        >>> randint(3, 4, (2,))
        tensor([3, 3])
    """
    least, most, lengths = read_bounds("randint", bounds_and_size, low=low, high=high, size=size)
    found = default_int_dtype() if dtype is None else normalize_dtype(dtype)
    shape, placement = read_size("randint", (lengths,)), find_placement(device)
    drawn = draw_integers("randint", shape, (least, most), found, generator=generator, placement=placement)
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws an order of the integers from 0 to ``n - 1``.

    Args:
        n: how many there are.
        generator: where the randomness comes from; by default the global Generator.
        dtype: by default the default integer dtype.
        device: as for :func:`rand`.
        requires_grad: whether the result collects gradients (of a floating dtype only).

    Raises:
        ArgumentTypeError: ``n`` is no integer.
        ArgumentError: it is negative, or the dtype does not hold the integers.
        UnsupportedDtypeError: the dtype is bool or complex.
        DtypeError: the dtype cannot be had.
        DeviceError: there is no such device.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: there is nothing to differentiate by.

    Source:
        torch.randperm; the numbers are JAX's.

    Example:
        >>> sorted(randperm(3).tolist())
        [0, 1, 2]
    """
    if not isinstance(n, (int, np.integer)):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise ArgumentTypeError(f"randperm: argument 'n' is an integer. Got {n!r}. Write int(n).")
    (size,) = read_size("randperm", (int(n),))
    found = default_int_dtype() if dtype is None else normalize_dtype(dtype)
    if found not in FLOATING | INTEGRAL:
        raise UnsupportedDtypeError(
            f"randperm: not implemented for {found.name}. Got n={n}. Use an integer dtype."
        )
    if size - 1 > find_last_integer(found):
        raise ArgumentError(
            f"randperm: n cannot be greater than {find_last_integer(found) + 1} for {found.name}. Got n={n}. "
            "Use a wider dtype."
        )
    drawn = _place(_sample_order(*_advance(generator), size, found), find_placement(device))
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`rand`, with the shape, dtype and place of another tensor where none is given.

    Args:
        input: the tensor, or array, to be like; its history plays no part.
        generator: where the randomness comes from; by default the global Generator.
        dtype: floating or complex; by default that of ``input``.
        device: by default where ``input`` is.
        requires_grad: whether the result collects gradients.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``input`` is neither.
        UnsupportedDtypeError: the dtype is neither floating nor complex.
        DtypeError: it cannot be had.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: the result does not lead back to ``input``.

    Source:
        torch.rand_like; the numbers are JAX's.

    Example:
        >>> import oplib
        >>> rand_like(oplib.zeros(2, 3)).shape
        (2, 3)
    """
    shape, found, placement = _read_model(input, dtype, device)
    drawn = _draw_floats("rand", shape, found, generator=generator, placement=placement)
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`randn`, with the shape, dtype and place of another tensor where none is given.

    Args:
        input: the tensor, or array, to be like; its history plays no part.
        generator: where the randomness comes from; by default the global Generator.
        dtype: floating or complex; by default that of ``input``.
        device: by default where ``input`` is.
        requires_grad: whether the result collects gradients.

    Returns:
        A new leaf.

    Raises:
        ArgumentTypeError: ``input`` is neither.
        UnsupportedDtypeError: the dtype is neither floating nor complex.
        DtypeError: it cannot be had.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: the result does not lead back to ``input``.

    Source:
        torch.randn_like; the numbers are JAX's.

    Example:
        >>> import oplib
        >>> randn_like(oplib.zeros(2, 3)).shape
        (2, 3)
    """
    shape, found, placement = _read_model(input, dtype, device)
    drawn = _draw_floats("randn", shape, found, generator=generator, placement=placement)
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randint_like(
    input: Tensor,
    *bounds: int,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`randint`, with the shape, dtype and place of another tensor where none is given.

    Args:
        input: the tensor to be like.
        *bounds: ``high``, or ``low, high``.
        low: the lowest number, by keyword.
        high: the first number that is too high, by keyword.
        generator: where the randomness comes from; by default the global Generator.
        dtype: by default that of ``input``, which may be floating.
        device: by default where ``input`` is.
        requires_grad: whether the result collects gradients.

    Raises:
        ArgumentError: wrong bounds, or no number lies between them, or the dtype does not hold them.
        DtypeError: the dtype cannot be had.
        TracingError: the Generator was made outside the running trace.

    Gradient:
        None: the result does not lead back to ``input``.

    Source:
        torch.randint_like; the numbers are JAX's.

    Example:
        >>> import oplib
        >>> randint_like(oplib.zeros(2), 3, 4)
        tensor([3., 3.])
    """
    least, most = read_bounds("randint_like", bounds, low=low, high=high)
    shape, found, placement = _read_model(input, dtype, device)
    drawn = draw_integers(
        "randint_like", shape, (least, most), found, generator=generator, placement=placement
    )
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def _read_model(input: Any, dtype: Any, device: Any) -> tuple[tuple[int, ...], np.dtype[Any], Placement]:
    """Shape, dtype and place of a tensor that is to be like another, which may be an array itself."""
    if not hasattr(input, "dtype"):
        raise ArgumentTypeError(
            f"input: expected a Tensor or an array, for its shape and dtype. Got {describe(input)}. "
            "Give the size to rand, randn or randint."
        )
    array = input._storage.array if isinstance(input, Tensor) else jnp.asarray(input)
    found = array.dtype if dtype is None else normalize_dtype(dtype)
    return array.shape, found, placement_like(array, device)


def _draw_floats(
    op: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    generator: Generator | None,
    placement: Placement,
) -> Any:
    """Draws as ``rand`` or ``randn``."""
    if dtype not in FLOATING | COMPLEX:
        raise UnsupportedDtypeError(
            f"{op}: only floating and complex dtypes have such numbers. Got {dtype.name}. Use randint."
        )
    sample = _sample_uniform if op == "rand" else _sample_normal
    return _place(sample(*_advance(generator), shape, dtype), placement)


def draw_integers(
    op: str,
    shape: tuple[int, ...],
    bounds: tuple[int, int],
    dtype: np.dtype[Any],
    *,
    generator: Generator | None,
    placement: Placement = None,
) -> Any:
    """Draws in the widest integers that there are, and converts: the dtype may be narrow, or floating.

    Args:
        op: what draws, for errors.
        shape: of the result.
        bounds: the lowest number, and the first that is too high.
        dtype: of the result.
        generator: a Generator, a key, or None.
        placement: where the result is to be.

    Raises:
        ArgumentError: no number lies between the bounds, or the dtype does not hold them.
    """
    low, high = bounds
    if low >= high:
        raise ArgumentError(
            f"{op}: 'low' must be less than 'high'. Got low={low}, high={high}. Swap or widen them."
        )
    wide = default_int_dtype()
    limits = np.iinfo(dtype if dtype in INTEGRAL and dtype.itemsize < wide.itemsize else wide)
    if low < limits.min or high - 1 > limits.max or (dtype == bool_dtype and high > 2):
        raise ArgumentError(
            f"{op}: the bounds do not fit {dtype.name}. Got low={low}, high={high}. "
            f"Choose another dtype, or narrower bounds."
        )
    last = np.asarray(high, f"uint{8 * wide.itemsize}" if high > 0 else wide)  # it may be one more than fits
    drawn = _sample_integers(*_advance(generator), np.asarray(low, wide), last, shape, dtype)
    return _place(drawn, placement)


def find_last_integer(dtype: np.dtype[Any]) -> int:
    """Returns the last of the integers from 0 that a dtype tells apart."""
    if dtype == bool_dtype:
        return 1
    return int(np.iinfo(dtype).max) if dtype in INTEGRAL else 2 ** (jnp.finfo(dtype).nmant + 1)


@partial(jax.jit, static_argnums=(2, 3))
def _sample_uniform(key: Any, count: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    key = jax.random.fold_in(key, count)
    if dtype not in COMPLEX:
        return jax.random.uniform(key, shape, dtype)
    part = np.zeros(0, dtype).real.dtype
    return jax.lax.complex(*(jax.random.uniform(one, shape, part) for one in jax.random.split(key)))


@partial(jax.jit, static_argnums=(2, 3))
def _sample_normal(key: Any, count: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.random.normal(jax.random.fold_in(key, count), shape, dtype)


@partial(jax.jit, static_argnums=(4, 5))
def _sample_integers(key: Any, count: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.random.randint(jax.random.fold_in(key, count), shape, low, high, low.dtype).astype(dtype)


@partial(jax.jit, static_argnums=(2, 3))
def _sample_order(key: Any, count: Any, size: int, dtype: Any) -> Any:
    return jax.random.permutation(jax.random.fold_in(key, count), size).astype(dtype)


def _advance(generator: Generator | None) -> tuple[Any, Any]:
    return read_generator(generator).advance()


def _place(array: Any, placement: Placement) -> Any:
    return array if placement is None else jax.device_put(array, placement)
