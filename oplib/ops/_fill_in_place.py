# ruff: noqa: A002  `input` and `from` are torch's names
"""In-place ops without a form out of place: random numbers, and values put at places that tensors name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.in_place import check_may_write, write_in_place
from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.library import OpOverload
from oplib.tensor import Generator, Tensor, box, default_generator, rand, randn
from oplib.tensor.dtype_rules import COMPLEX, FLOATING

from ._in_place import check_written
from ._subscripts import check_places, read_subscripts

Function = Callable[..., Any]


def uniform_(input: Any, *bounds: float, generator: Generator | None = None, **named: float) -> Any:
    """Fills a tensor with numbers drawn uniformly from ``[from, to)``, by default ``[0, 1)``.

    Args:
        input: the tensor, of a floating dtype; it is returned.
        *bounds: ``from`` and ``to``.
        generator: where the randomness comes from; by default the global Generator.
        **named: the same by name.

    Raises:
        ArgumentError: another dtype, or ``to`` is less than ``from``.

    Gradient:
        Zero: the numbers do not depend on those that were there.
    """
    low, high = _read_pair("uniform_", ("from", 0.0), ("to", 1.0), bounds, named)
    if low > high:
        raise ArgumentError(
            f"uniform_: expects to return a [from, to) range, but found from={low} > to={high}. "
            "Exchange them."
        )
    _prepare(input, "uniform_", FLOATING)
    spec = input._storage.spec
    drawn = rand(tuple(spec.shape), dtype=spec.dtype, generator=generator)._storage.array
    return _store(input, _scale(drawn, high - low, low), "uniform_")


def normal_(input: Any, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Any:
    """Fills a tensor with numbers of a normal distribution.

    Args:
        input: the tensor, of a floating or complex dtype; it is returned.
        mean: of the distribution.
        std: its standard deviation.
        generator: where the randomness comes from; by default the global Generator.

    Raises:
        ArgumentError: another dtype, or a negative ``std``.

    Gradient:
        Zero: the numbers do not depend on those that were there.
    """
    if std < 0:
        raise ArgumentError(f"normal_: expects std >= 0.0, but found std {std}. Give the root of a variance.")
    _prepare(input, "normal_", FLOATING | COMPLEX)
    spec = input._storage.spec
    drawn = randn(tuple(spec.shape), dtype=spec.dtype, generator=generator)._storage.array
    return _store(input, _scale(drawn, std, mean), "normal_")


def bernoulli_(input: Any, p: Any = 0.5, *, generator: Generator | None = None) -> Any:
    """Fills a tensor with ones, with probability ``p``, and zeros.

    Args:
        input: the tensor; it is returned.
        p: a number, or a tensor of probabilities that broadcasts to the shape.
        generator: where the randomness comes from; by default the global Generator.

    Raises:
        ArgumentError: a number that is no probability.

    Gradient:
        Zero: the numbers do not depend on those that were there.
    """
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise ArgumentError(f"bernoulli_: expects p to be in [0, 1], but got p={p}. Give a probability.")
    _prepare(input, "bernoulli_", None)
    spec = input._storage.spec
    chance = p._storage.array if isinstance(p, Tensor) else np.float32(p)
    key, count = (default_generator if generator is None else generator).advance()
    return _store(input, _flip(key, count, chance, tuple(spec.shape), spec.dtype), "bernoulli_")


def _read_pair(
    op: str,
    first: tuple[str, float],
    second: tuple[str, float],
    given: Sequence[float],
    named: Mapping[str, float],
) -> tuple[float, float]:
    """Reads two numbers of which one has a name that is no name in Python."""
    values = dict(zip((first[0], second[0]), given, strict=False)) | dict(named)
    unknown = set(values) - {first[0], second[0]}
    if unknown or len(given) > 2:
        raise ArgumentTypeError(
            f"{op}: it takes {first[0]} and {second[0]}. Got {list(given)} and {dict(named)}. Give these "
            "two, by place or by name."
        )
    return values.get(first[0], first[1]), values.get(second[0], second[1])


def _prepare(tensor: Any, name: str, dtypes: Any) -> None:
    check_written(tensor, name)
    check_may_write(tensor, name)
    if dtypes is not None and tensor._storage.spec.dtype not in dtypes:
        raise ArgumentError(
            f"{name}: not implemented for this dtype. Got {describe(tensor._storage.spec)}. Use a "
            "floating tensor."
        )


def _scale(drawn: Any, factor: float, offset: float) -> Any:
    if factor == 1 and offset == 0:
        return drawn
    return _scaled(drawn, np.asarray(factor, drawn.dtype), np.asarray(offset, drawn.dtype))


@jax.jit
def _scaled(drawn: Any, factor: Any, offset: Any) -> Any:
    return drawn * factor + offset


def _flip(key: Any, count: Any, chance: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    drawn = jax.random.uniform(jax.random.fold_in(key, count), shape, jnp.float32)
    return (drawn < jnp.broadcast_to(jnp.asarray(chance, jnp.float32), shape)).astype(dtype)


def _store(tensor: Tensor, values: Any, name: str) -> Tensor:
    return write_in_place(tensor, box(values), name)


def choose_masked_fill(overloads: Mapping[str, OpOverload]) -> Function:
    """Makes ``masked_fill(input, mask, value)``, where the value may be a number or a tensor of one item."""
    on_tensor, on_number = overloads["masked_fill.Tensor"], overloads["masked_fill.Scalar"]

    def masked_fill(input: Any, mask: Any, value: Any) -> Any:
        if isinstance(value, (bool, int, float, complex)):
            return on_number.call(input, mask, value)
        if value.ndim:
            raise ArgumentError(
                f"masked_fill: only supports a 0-dimensional value tensor. Got {describe(value)}. Use where."
            )
        return on_tensor.call(input, mask, value)

    return masked_fill


def make_index_put(overloads: Mapping[str, OpOverload]) -> Function:
    """Makes ``index_put(input, indices, values, accumulate=False)``."""
    put = overloads["_index_put"]

    def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
        """Returns the tensor with values at places, or with these added.

        Args:
            input: the tensor.
            indices: for each dimension integers that name places, a mask of bools, or None for all.
            values: broadcasts to what the indices name.
            accumulate: adds to what is there; places may then be named several times.

        Raises:
            DimensionError: there is no such place.

        Gradient:
            That of the places to the values, and of all others to the tensor; of all to it, if accumulated.

        Source:
            torch.index_put
        """
        given = tuple(slice(None) if index is None else index for index in indices)
        places: list[Any] = []
        dims: list[int] = []
        for dim, item in enumerate(read_subscripts(given, tuple(input.shape))):
            if not isinstance(item, slice):
                check_places(item, input.shape[dim], dim)
                places.append(item)
                dims.append(dim)
        return put.call(input, places, values, dims, accumulate)

    return index_put
