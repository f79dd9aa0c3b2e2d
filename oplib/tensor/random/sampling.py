"""Arrays of random numbers. Each distribution has one compiled function."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ArgumentError, UnsupportedDtypeError
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.devices.placement import Placement
from oplib.tensor.dtypes.names import bool as bool_dtype
from oplib.tensor.dtypes.rules import COMPLEX, FLOATING, INTEGRAL, default_int_dtype

from .generator import Generator, read_draw, read_generator

_DRAWABLE = FLOATING | COMPLEX


def draw_floats(
    op: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    *,
    generator: Generator | None,
    placement: Placement,
) -> Any:
    """Draws as ``rand`` or ``randn`` do.

    Raises:
        UnsupportedDtypeError: the dtype is neither floating nor complex.
    """
    if dtype not in _DRAWABLE:
        raise UnsupportedDtypeError(
            f"{op}: only floating and complex dtypes have such numbers. Got {dtype.name}. Use randint."
        )
    sample = _sample_uniform if op == "rand" else _sample_normal
    return _put(sample(*_draw(generator), shape, dtype), placement)


def draw_integers(
    op: str,
    shape: tuple[int, ...],
    bounds: tuple[int, int],
    dtype: np.dtype[Any],
    *,
    generator: Generator | None,
    placement: Placement = None,
) -> Any:
    """Draws in the widest integer dtype and converts, because the dtype may be narrow or floating.

    Raises:
        ArgumentError: no number is between the bounds, or the dtype does not hold them.
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
    bits = 8 * wide.itemsize
    span = np.asarray((high - low) % 2**bits, f"uint{bits}")  # 0 if all integers are asked for
    drawn = _sample_integers(*_draw(generator), (np.asarray(low, wide), span), shape, dtype)
    return _put(drawn, placement)


def draw_order(size: int, dtype: np.dtype[Any], *, generator: Generator | None, placement: Placement) -> Any:
    """Draws a permutation of the integers below ``size``, which the dtype must hold."""
    return _put(_sample_order(*_draw(generator), size, dtype), placement)


def find_last_integer(dtype: np.dtype[Any]) -> int:
    """Returns the largest n for which a dtype distinguishes all integers from 0 to n."""
    if dtype == bool_dtype:
        return 1
    return int(np.iinfo(dtype).max) if dtype in INTEGRAL else 2 ** (jnp.finfo(dtype).nmant + 1)


@partial(jax.jit, static_argnums=(1, 2, 3))
def _sample_uniform(draw: Any, kind: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    require_memory("rand", shape, dtype, in_jit=True)
    key = read_draw(draw, kind)
    if dtype not in COMPLEX:
        return jax.random.uniform(key, shape, dtype)
    part = np.zeros(0, dtype).real.dtype
    return jax.lax.complex(*(jax.random.uniform(part_key, shape, part) for part_key in jax.random.split(key)))


@partial(jax.jit, static_argnums=(1, 2, 3))
def _sample_normal(draw: Any, kind: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    require_memory("randn", shape, dtype, in_jit=True)
    return jax.random.normal(read_draw(draw, kind), shape, dtype)


@partial(jax.jit, static_argnums=(1, 3, 4))
def _sample_integers(
    draw: Any, kind: Any, range_: tuple[Any, Any], shape: tuple[int, ...], dtype: Any
) -> Any:
    """Draws evenly: the highest word of three of ``span * random``, where the random number has two words.

    ``jax.random.randint`` takes a remainder, and draws some integers of a wide range more often than others.
    """
    require_memory("randint", shape, dtype, in_jit=True)
    low, span = range_
    first, second = jax.random.bits(read_draw(draw, kind), (2, *shape), span.dtype)
    carried = first * span + _multiply_high(second, span)
    highest = _multiply_high(first, span) + (carried < first * span).astype(span.dtype)
    return (jnp.where(span == 0, first, highest).astype(low.dtype) + low).astype(dtype)


def _multiply_high(words: Any, factor: Any) -> Any:
    """Returns the high word of each product of two words."""
    half = factor.dtype.type(4 * factor.dtype.itemsize)
    rest = factor.dtype.type(2 ** int(half) - 1)
    first, last = words >> half, words & rest
    by_first, by_last = factor >> half, factor & rest
    middle = first * by_last + (last * by_last >> half)
    carried = last * by_first + (middle & rest)
    return first * by_first + (middle >> half) + (carried >> half)


@partial(jax.jit, static_argnums=(1, 2, 3))
def _sample_order(draw: Any, kind: Any, size: int, dtype: Any) -> Any:
    """Sorts random integers of 64 bits whose last ones are their places.

    XLA sorts single integers on CPUs in a fifth of the time of pairs. More than 32 bits decide, so that draws
    are rarely equal; these are in the order of their places.
    """
    require_memory("randperm", (size,), dtype, in_jit=True)
    places = size.bit_length()
    high, low = jax.random.bits(read_draw(draw, kind), (2, size), np.uint32)
    low = (low >> np.uint32(places) << np.uint32(places)) | jax.lax.iota(np.uint32, size)
    with jax.enable_x64(True):
        high, low = (jax.lax.convert_element_type(part, np.uint64) for part in (high, low))
        drawn = jax.lax.sort(high * (1 << 32) + low, is_stable=False)
        return jax.lax.convert_element_type(drawn & ((1 << places) - 1), dtype)


def _draw(generator: Generator | None) -> tuple[Any, Any]:
    return read_generator(generator).draw()


def _put(array: Any, placement: Placement) -> Any:
    return array if placement is None else jax.device_put(array, placement)
