# ruff: noqa: A002  `input` is torch's name
"""Factories of random Tensors, of a shape or like another Tensor."""

from __future__ import annotations

from typing import Any, Protocol, Unpack

from oplib.errors import ArgumentError, ArgumentTypeError, UnsupportedDtypeError
from oplib.tensor.dtypes.rules import FLOATING, INTEGRAL, default_int_dtype
from oplib.tensor.shapes.filling import read_size
from oplib.tensor.shapes.keywords import read_bounds
from oplib.tensor.storage.factory_options import FactoryOptions, factory, read_options, read_options_like
from oplib.tensor.tensor import Tensor, box_new

from .generator import Generator
from .sampling import draw_floats, draw_integers, draw_order, find_last_integer

_FLOATS = """Draws {what}

Args:
    dtype: {dtype}; by default the default dtype.

Raises:
    UnsupportedDtypeError: the dtype is {refused}.

Example:
    >>> {name}({example}
"""


class DrawingFactory(Protocol):
    """A factory of random Tensors of a shape, for type checkers."""

    def __call__(
        self,
        *sizes: Any,
        size: Any = None,
        generator: Generator | None = None,
        **options: Unpack[FactoryOptions],
    ) -> Tensor:
        """Makes a Tensor."""
        ...


def _make_floats(name: str, **words: str) -> DrawingFactory:
    def draw(
        *sizes: Any, size: Any = None, generator: Generator | None = None, **options: Unpack[FactoryOptions]
    ) -> Tensor:
        shape = read_size(name, sizes, size)
        dtype, placement, requires_grad = read_options(name, options, len(shape))
        drawn = draw_floats(name, shape, dtype, generator=generator, placement=placement)
        return box_new(drawn, requires_grad)

    draw.__name__ = draw.__qualname__ = name
    draw.__doc__ = _FLOATS.format(name=name, **words)
    return factory(draw)


rand = _make_floats(
    "rand",
    what="uniformly from [0, 1).",
    dtype="a floating dtype, or a complex one, whose parts are drawn separately",
    refused="not floating",
    example="2, 3).shape\n    (2, 3)",
)
randn = _make_floats(
    "randn",
    what="from the normal distribution with mean 0 and variance 1, also for complex dtypes.",
    dtype="a floating or complex dtype",
    refused="neither floating nor complex",
    example="3, requires_grad=True).requires_grad\n    True",
)


@factory
def randint(
    *bounds_and_size: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    **options: Unpack[FactoryOptions],
) -> Tensor:
    """Draws integers uniformly: ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        *bounds_and_size: the lowest number (by default 0), the exclusive upper bound, and the shape.
        low: the lowest number, by keyword.
        high: the exclusive upper bound, by keyword.
        size: the shape, by keyword.
        dtype: by default the default integer dtype.
        requires_grad: whether the result collects gradients (floating dtypes only).

    Raises:
        ArgumentError: arguments are wrong, no number is between the bounds, or the dtype does not hold them.

    Example:
        >>> randint(3, 4, (2,))
        tensor([3, 3])
    """
    least, most, lengths = read_bounds("randint", bounds_and_size, low=low, high=high, size=size)
    shape = read_size("randint", (lengths,))
    dtype, placement, requires_grad = read_options("randint", options, len(shape), default_int_dtype)
    drawn = draw_integers("randint", shape, (least, most), dtype, generator=generator, placement=placement)
    return box_new(drawn, requires_grad)


@factory
def randperm(n: int, *, generator: Generator | None = None, **options: Unpack[FactoryOptions]) -> Tensor:
    """Draws a random permutation of the integers from 0 to ``n - 1``.

    Args:
        n: the number of integers.
        dtype: by default the default integer dtype.
        requires_grad: whether the result collects gradients (floating dtypes only).

    Raises:
        ArgumentTypeError: ``n`` is not an integer.
        ArgumentError: ``n`` is negative, or the dtype does not hold the integers.
        UnsupportedDtypeError: the dtype is bool or complex.

    Example:
        >>> sorted(randperm(3).tolist())
        [0, 1, 2]
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise ArgumentTypeError(f"randperm: argument 'n' is an integer. Got {n!r}. Write int(n).")
    (size,) = read_size("randperm", (n,))
    dtype, placement, requires_grad = read_options("randperm", options, 1, default_int_dtype)
    if dtype not in FLOATING | INTEGRAL:
        raise UnsupportedDtypeError(
            f"randperm: not implemented for {dtype.name}. Got n={n}. Use an integer dtype."
        )
    if size - 1 > find_last_integer(dtype):
        raise ArgumentError(
            f"randperm: n cannot be greater than {find_last_integer(dtype) + 1} for {dtype.name}. Got n={n}. "
            "Use a wider dtype."
        )
    return box_new(draw_order(size, dtype, generator=generator, placement=placement), requires_grad)


# Like another tensor ----------------------------------------------------------------------------------------

_FLOATS_LIKE = """Draws as ``oplib.{draw}`` does, by default with the shape, dtype and placement of a tensor.

Args:
    dtype: a floating or complex dtype; by default the dtype of ``input``.

Raises:
    UnsupportedDtypeError: the dtype is neither floating nor complex.

Example:
    >>> import oplib
    >>> {draw}_like(oplib.zeros(2, 3)).shape
    (2, 3)
"""


class DrawingLikeFactory(Protocol):
    """A factory of random Tensors like another one, for type checkers."""

    def __call__(
        self, input: Tensor, *, generator: Generator | None = None, **options: Unpack[FactoryOptions]
    ) -> Tensor:
        """Makes a Tensor."""
        ...


def _make_floats_like(draw: str) -> DrawingLikeFactory:
    name = f"{draw}_like"

    def drawn_like(
        input: Tensor, *, generator: Generator | None = None, **options: Unpack[FactoryOptions]
    ) -> Tensor:
        array, (dtype, placement, requires_grad) = read_options_like(name, input, options)
        drawn = draw_floats(draw, array.shape, dtype, generator=generator, placement=placement)
        return box_new(drawn, requires_grad)

    drawn_like.__name__ = drawn_like.__qualname__ = name
    drawn_like.__doc__ = _FLOATS_LIKE.format(draw=draw)
    return factory(drawn_like)


rand_like = _make_floats_like("rand")
randn_like = _make_floats_like("randn")


@factory
def randint_like(
    input: Tensor,
    *bounds: int,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    **options: Unpack[FactoryOptions],
) -> Tensor:
    """Draws as :func:`oplib.randint` does, by default with the shape, dtype and placement of a tensor.

    Args:
        *bounds: ``high``, or ``low, high``.
        low: the lowest number, by keyword.
        high: the exclusive upper bound, by keyword.
        dtype: by default the dtype of ``input``, which may be floating.

    Raises:
        ArgumentError: bounds are wrong, no number is between them, or the dtype does not hold them.

    Example:
        >>> import oplib
        >>> randint_like(oplib.zeros(2), 3, 4)
        tensor([3., 3.])
    """
    span = read_bounds("randint_like", bounds, low=low, high=high)
    array, (dtype, placement, requires_grad) = read_options_like("randint_like", input, options)
    drawn = draw_integers("randint_like", array.shape, span, dtype, generator=generator, placement=placement)
    return box_new(drawn, requires_grad)
