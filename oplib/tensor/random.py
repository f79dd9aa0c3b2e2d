# ruff: noqa: A002  `input` is torch's name
"""Tensors of random numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from oplib.errors import ArgumentError, DtypeError

from .dtype_rules import COMPLEX, FLOATING, INTEGRAL, default_int_dtype, get_default_dtype, normalize_dtype
from .dtypes import bool as bool_dtype
from .filling import read_size
from .generator import Generator, default_generator
from .placement import Placement, find_placement, placement_like
from .tensor import Tensor


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws uniformly from [0, 1).

    Args:
        *size: the shape, as integers or as one sequence.
        generator: where the randomness comes from; by default the global Generator.
        dtype: a floating dtype; by default the default one.
        device: a Device or its spelling, a ``jax.Device`` or ``Sharding``; by default JAX's choice.
        requires_grad: whether the result collects gradients.

    Raises:
        ArgumentError: the size is not made of integers, or negative.
        DtypeError: the dtype cannot be had, or is not floating.
        DeviceError: there is no such device.
        TracingError: the Generator was made outside the running trace.

    Example:
        >>> rand(2, 3).shape
        (2, 3)
    """
    shape, found = read_size("rand", size), get_default_dtype() if dtype is None else normalize_dtype(dtype)
    return Tensor.from_array(
        _draw_uniform(shape, found, generator, find_placement(device)), requires_grad=requires_grad
    )


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from the normal distribution of mean 0 and variance 1, complex too; arguments as for `rand`.

    Example:
        >>> randn(3, requires_grad=True).requires_grad
        True
    """
    shape, found = read_size("randn", size), get_default_dtype() if dtype is None else normalize_dtype(dtype)
    return Tensor.from_array(
        _draw_normal(shape, found, generator, find_placement(device)), requires_grad=requires_grad
    )


def randint(
    *bounds_and_size: Any,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws integers uniformly: ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        *bounds_and_size: the lowest number (0 if left out), the first one that is too high, and the shape.
        generator: where the randomness comes from; by default the global Generator.
        dtype: by default the default integer dtype.
        device: as for :func:`rand`.
        requires_grad: whether the result collects gradients (of a floating dtype only).

    Raises:
        ArgumentError: wrong arguments, or no number lies between the bounds.
        DtypeError: the dtype cannot be had, or does not hold the bounds.
        DeviceError: there is no such device.
        TracingError: the Generator was made outside the running trace.

    Example:
        >>> randint(3, 4, (2,))
        tensor([3, 3])
    """
    if len(bounds_and_size) not in (2, 3):
        raise ArgumentError(
            f"randint: bounds and size are 2 or 3 arguments. Got {len(bounds_and_size)}. "
            f"Write randint(high, size) or randint(low, high, size)."
        )
    low, high, size = (0, *bounds_and_size) if len(bounds_and_size) == 2 else bounds_and_size
    found = default_int_dtype() if dtype is None else normalize_dtype(dtype)
    drawn = _draw_integers(
        read_size("randint", (size,)), (low, high), found, generator, find_placement(device)
    )
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`rand`, with the shape, dtype and place of another tensor where none is given."""
    array = input._storage.array
    found = array.dtype if dtype is None else normalize_dtype(dtype)
    drawn = _draw_uniform(array.shape, found, generator, placement_like(array, device))
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`randn`, with the shape, dtype and place of another tensor where none is given."""
    array = input._storage.array
    found = array.dtype if dtype is None else normalize_dtype(dtype)
    drawn = _draw_normal(array.shape, found, generator, placement_like(array, device))
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def randint_like(
    input: Tensor,
    *bounds: int,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws as :func:`randint`, with the shape, dtype and place of another tensor where none is given.

    Args:
        input: the tensor to be like.
        *bounds: ``high``, or ``low, high``.
        generator: where the randomness comes from; by default the global Generator.
        dtype: by default that of ``input``, which may be floating.
        device: by default where ``input`` is.
        requires_grad: whether the result collects gradients.

    Raises:
        ArgumentError: wrong bounds, or no number lies between them.
        DtypeError: the dtype cannot be had, or does not hold the bounds.
        TracingError: the Generator was made outside the running trace.
    """
    if len(bounds) not in (1, 2):
        raise ArgumentError(
            f"randint_like: the bounds are 1 or 2 arguments. Got {len(bounds)}. "
            f"Write randint_like(x, high) or randint_like(x, low, high)."
        )
    low, high = (0, *bounds) if len(bounds) == 1 else bounds
    array = input._storage.array
    found = array.dtype if dtype is None else normalize_dtype(dtype)
    drawn = _draw_integers(array.shape, (low, high), found, generator, placement_like(array, device))
    return Tensor.from_array(drawn, requires_grad=requires_grad)


def _draw_uniform(
    shape: tuple[int, ...], dtype: np.dtype[Any], generator: Generator | None, placement: Placement
) -> Any:
    if dtype not in FLOATING:
        raise DtypeError(
            f"rand: only floating dtypes have such numbers. Got {dtype.name}. Use randint for integers."
        )
    return _place(_sample_uniform(*_advance(generator), shape, dtype), placement)


def _draw_normal(
    shape: tuple[int, ...], dtype: np.dtype[Any], generator: Generator | None, placement: Placement
) -> Any:
    if dtype not in FLOATING | COMPLEX:
        raise DtypeError(
            f"randn: only floating and complex dtypes have such numbers. Got {dtype.name}. Use randint."
        )
    return _place(_sample_normal(*_advance(generator), shape, dtype), placement)


def _draw_integers(
    shape: tuple[int, ...],
    bounds: tuple[int, int],
    dtype: np.dtype[Any],
    generator: Generator | None,
    placement: Placement,
) -> Any:
    """Draws in the widest integers that there are, and converts: the dtype may be narrow, or floating."""
    low, high = bounds
    if low >= high:
        raise ArgumentError(
            f"randint: 'low' must be less than 'high'. Got low={low}, high={high}. Swap or widen them."
        )
    wide = default_int_dtype()
    limits = np.iinfo(dtype if dtype in INTEGRAL and dtype.itemsize < wide.itemsize else wide)
    if low < limits.min or high - 1 > limits.max or (dtype == bool_dtype and high > 2):
        raise DtypeError(
            f"randint: the bounds do not fit {dtype.name}. Got low={low}, high={high}. "
            f"Choose another dtype, or narrower bounds."
        )
    key, count = _advance(generator)
    drawn = jax.random.randint(jax.random.fold_in(key, count), shape, low, high, wide)
    return _place(drawn.astype(dtype), placement)


@partial(jax.jit, static_argnums=(2, 3))
def _sample_uniform(key: Any, count: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.random.uniform(jax.random.fold_in(key, count), shape, dtype)


@partial(jax.jit, static_argnums=(2, 3))
def _sample_normal(key: Any, count: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.random.normal(jax.random.fold_in(key, count), shape, dtype)


def _advance(generator: Generator | None) -> tuple[Any, Any]:
    return (default_generator if generator is None else generator).advance()


def _place(array: Any, placement: Placement) -> Any:
    return array if placement is None else jax.device_put(array, placement)
