# ruff: noqa: A002  the parameters are torch's
"""Parts of an axis, as views: so many, or ending at given places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oplib.errors import ArgumentError, describe
from oplib.tensor import Tensor

Function = Callable[..., Any]
Functions = Mapping[str, Function]


def _make_tensor_split(functions: Functions) -> Function:
    narrow = functions["narrow"]

    def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
        """Returns views of parts of a dim.

        Args:
            input: with one dim at least, of any dtype.
            indices_or_sections: how many parts, the first ones longer by one where they must, or the places
                where they end, but the last; an int, a sequence of these, or a tensor that has values.
            dim: which dim.

        Returns:
            A tuple of views.

        Raises:
            ArgumentError: the input has no dims, or the number of parts is less than 1.
            DimensionError: there is no such dim.

        Gradient:
            That of the view.

        Source:
            torch.tensor_split

        Example:
            >>> import oplib
            >>> oplib.tensor_split(oplib.tensor([1, 2, 3]), 2)
            (tensor([1, 2]), tensor([3]))
        """
        if not input.ndim:
            raise ArgumentError(
                f"tensor_split: expected at least a 1-dimensional tensor. Got {describe(input)}. Use the "
                "tensor itself."
            )
        length = input.shape[dim] if -input.ndim <= dim < input.ndim else 0
        stops = [_clip(one, length) for one in _find_stops(indices_or_sections, length, "tensor_split")]
        pairs = zip([0, *stops], [*stops, length], strict=True)
        return tuple(narrow(input, dim, start, max(stop - start, 0)) for start, stop in pairs)

    return tensor_split


def _find_stops(indices_or_sections: Any, length: int, op: str) -> list[int]:
    """The places where parts end, but the last."""
    if isinstance(indices_or_sections, Tensor):
        found = np.asarray(indices_or_sections.array)
        indices_or_sections = found.tolist()
    if not isinstance(indices_or_sections, int):
        return list(indices_or_sections)
    if indices_or_sections < 1:
        raise ArgumentError(
            f"{op}: number of sections must be larger than 0. Got {indices_or_sections}. Give at least 1."
        )
    short, longer = divmod(length, indices_or_sections)
    return [
        place * short + min(place, longer) for place in range(1, indices_or_sections)
    ]  # the first ones are longer


def _clip(place: int, length: int) -> int:
    return max(place + length, 0) if place < 0 else min(place, length)


_DIMS = {"hsplit": 1, "vsplit": 0, "dsplit": 2}
_SHAPES = {"hsplit": [(2, 2, 6)] * 2, "vsplit": [(1, 4, 6)] * 2, "dsplit": [(2, 4, 3)] * 2}
_SPLIT_ALONG = """Returns views of parts of dim {dim}; ``hsplit`` of a vector those of its only dim.

Args:
    input: with at least {least} dims, of any dtype.
    indices_or_sections: how many parts, all of one length, or the places where they end, but the last.

Returns:
    A tuple of views.

Raises:
    ArgumentError: the input has fewer dims, or the number does not divide its length.

Gradient:
    That of the view.

Source:
    torch.{name}

Example:
    >>> import oplib
    >>> [part.shape for part in oplib.{name}(oplib.ones(2, 4, 6), 2)]
    {shapes}
"""


def _make_split_along(name: str, least: int) -> Callable[[Functions], Function]:
    def make(functions: Functions) -> Function:
        tensor_split = _make_tensor_split(functions)

        def split_along(input: Any, indices_or_sections: Any) -> Any:
            if input.ndim < least:
                raise ArgumentError(
                    f"{name}: requires a tensor with at least {least} dimensions. Got {describe(input)}. Add "
                    "one with unsqueeze."
                )
            dim = 0 if input.ndim == 1 else _DIMS[name]
            sections = indices_or_sections
            if isinstance(sections, int) and (sections < 1 or input.shape[dim] % sections):
                raise ArgumentError(
                    f"{name}: the size of dimension {dim} is not divisible by the split_size. Got "
                    f"{describe(input)} and {sections}. Give a divisor, or places."
                )
            return tensor_split(input, sections, dim)

        split_along.__doc__ = _SPLIT_ALONG.format(
            name=name, dim=_DIMS[name], least=least, shapes=_SHAPES[name]
        )
        return split_along

    return make


def _make_split_with_sizes(functions: Functions) -> Function:
    split = functions["split"]

    def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
        """Returns views of parts of a dim, of given lengths.

        Args:
            input: of any dtype.
            split_sizes: the lengths; they sum to that of the dim.
            dim: which dim.

        Returns:
            A tuple of views.

        Raises:
            ArgumentError: the lengths do not sum to that of the dim.
            DimensionError: there is no such dim.

        Gradient:
            That of the view.

        Source:
            torch.split_with_sizes

        Example:
            >>> import oplib
            >>> oplib.split_with_sizes(oplib.tensor([1, 2, 3]), [1, 2])
            (tensor([1]), tensor([2, 3]))
        """
        return split(input, list(split_sizes), dim)

    return split_with_sizes


PARTS: dict[str, Callable[[Functions], Function]] = {
    **{name: _make_split_along(name, least) for name, least in (("hsplit", 1), ("vsplit", 2), ("dsplit", 3))},
    "split_with_sizes": _make_split_with_sizes,
    "tensor_split": _make_tensor_split,
}
METHODS = ("dsplit", "hsplit", "split_with_sizes", "tensor_split", "vsplit")
