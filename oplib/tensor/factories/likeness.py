# ruff: noqa: A002  `input` is torch's name
"""Tensors with the shape, dtype and placement of another Tensor: ``zeros_like`` and similar functions."""

from __future__ import annotations

from typing import Any, Protocol, Unpack

from oplib.tensor.shapes.filling import fill, fill_like
from oplib.tensor.storage.factory_options import FactoryOptions, factory, read_options_like
from oplib.tensor.tensor import Tensor, box_new


def _fill_like(op: str, input: Tensor, value: Any, options: FactoryOptions) -> Tensor:
    if not options and hasattr(input, "_storage"):
        return box_new(fill_like(input._storage.array, value), requires_grad=False)
    array, (dtype, placement, requires_grad) = read_options_like(op, input, options)
    if options.get("dtype") is None and options.get("device") is None:
        return box_new(fill_like(array, value), requires_grad)
    return box_new(fill(array.shape, value, dtype, placement), requires_grad)


@factory
def full_like(input: Tensor, fill_value: Any, **options: Unpack[FactoryOptions]) -> Tensor:
    """Makes a tensor of the shape, dtype and sharding of another, filled with one value.

    Args:
        fill_value: a number, or a tensor without dimensions.

    Example:
        >>> import oplib
        >>> full_like(oplib.zeros(2), 3)
        tensor([3., 3.])
    """
    return _fill_like("full_like", input, fill_value, options)


class LikeFactory(Protocol):
    """A factory of Tensors like another one, for type checkers."""

    def __call__(self, input: Tensor, **options: Unpack[FactoryOptions]) -> Tensor:
        """Makes a Tensor."""
        ...


def _make_filled(name: str, value: int, what: str, example: str) -> LikeFactory:
    def filled(input: Tensor, **options: Unpack[FactoryOptions]) -> Tensor:
        return _fill_like(name, input, value, options)

    filled.__name__ = filled.__qualname__ = name
    filled.__doc__ = f"Makes a tensor {what}\n\nExample:\n    >>> import oplib\n    >>> {example}"
    return factory(filled)


_SAME = "with the shape, dtype and sharding of another."
zeros_like = _make_filled(
    "zeros_like", 0, f"of zeros {_SAME}", "zeros_like(oplib.ones(2))\n    tensor([0., 0.])"
)
ones_like = _make_filled(
    "ones_like", 1, f"of ones {_SAME}", "ones_like(oplib.zeros(2))\n    tensor([1., 1.])"
)
empty_like = _make_filled(
    "empty_like",
    0,
    "like another, without defined values. In oplib they are zeros.",
    "empty_like(oplib.zeros(2, 3)).shape\n    (2, 3)",
)
