"""Size: the tuple that ``Tensor.shape`` and ``Tensor.size()`` return."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, Self, SupportsIndex, overload

import jax

from oplib.errors import DataTypeError
from oplib.pytree import register_pytree_node


class Size(tuple[int, ...]):
    """A shape as ``Tensor.shape`` and ``Tensor.size()`` return it: a tuple of lengths.

    It equals the plain tuple, which JAX has as a shape. ``oplib.Tensor`` and ``Tensor.new`` take a Size as
    the shape of a new tensor, and a plain tuple as its data.

    Args:
        sizes: the lengths; integers, or what has ``__index__``.

    Raises:
        DataTypeError: an item is not an integer.

    Source: torch.Size.

    Example:
        >>> import oplib
        >>> size = oplib.ones(2, 3).size()
        >>> isinstance(size, oplib.Size), size.numel(), size == (2, 3)
        (True, 6, True)
        >>> oplib.ones(1).new(size[1:]).shape
        (3,)
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Self:  # noqa: D102  described above
        return tuple.__new__(cls, [_read(index, size) for index, size in enumerate(sizes)])

    def numel(self) -> int:
        """Returns the number of items of a tensor of this shape.

        Example:
            >>> Size([2, 3]).numel()
            6
        """
        return math.prod(self)

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, key: slice) -> Size: ...

    def __getitem__(self, key: SupportsIndex | slice) -> int | Size:
        part = super().__getitem__(key)
        return make_size(part) if isinstance(part, tuple) else part

    def __add__(self, other: Any) -> Size:
        return make_size((*self, *other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Size:
        return make_size((*other, *self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Size:
        return make_size(super().__mul__(count))

    __rmul__ = __mul__


def make_size(lengths: Iterable[Any]) -> Size:
    """Returns the Size of lengths that are known to be valid; they may be symbolic or traced."""
    return tuple.__new__(Size, lengths)


def _read(index: int, length: Any) -> Any:
    try:
        return length if type(length) is int else operator.index(length)
    except TypeError:
        raise DataTypeError(
            f"Size: it takes an iterable of 'int'. Got '{type(length).__name__}' as item {index}. Convert it "
            "by int()."
        ) from None


# A tuple is a node of trees, so a subclass is one too.
jax.tree_util.register_pytree_node(Size, lambda size: (tuple(size), None), lambda _, items: make_size(items))
register_pytree_node(Size, lambda size: (tuple(size), None), lambda items, _: make_size(items))
