# ruff: noqa: A002  the parameters are torch's
"""Functions of shapes, made of several view ops: parts of an axis, and tensors brought to one shape."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oplib.errors import ArgumentError, describe
from oplib.tensor import Tensor

Function = Callable[..., Any]
Functions = Mapping[str, Function]

# Parts of an axis -------------------------------------------------------------------------------------------


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


def _make_tensor_split(functions: Functions) -> Function:
    narrow = functions["narrow"]

    def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
        """Views of parts of a dimension: so many, as equal as they can be, or ending at these places."""
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


def _make_split_along(name: str, least: int) -> Callable[[Functions], Function]:
    def make(functions: Functions) -> Function:
        tensor_split = _make_tensor_split(functions)

        def split_along(input: Any, indices_or_sections: Any) -> Any:
            """Views of parts of one certain dimension, as equal as they are, or ending at these places."""
            if input.ndim < least:
                raise ArgumentError(
                    f"{name}: requires a tensor with at least {least} dimensions. Got {describe(input)}. Add "
                    "one with unsqueeze."
                )
            dim = 0 if input.ndim == 1 else {"h": 1, "v": 0, "d": 2}[name[0]]
            sections = indices_or_sections
            if isinstance(sections, int) and (sections < 1 or input.shape[dim] % sections):
                raise ArgumentError(
                    f"{name}: the size of dimension {dim} is not divisible by the split_size. Got "
                    f"{describe(input)} and {sections}. Give a divisor, or places."
                )
            return tensor_split(input, sections, dim)

        return split_along

    return make


def _make_split_with_sizes(functions: Functions) -> Function:
    split = functions["split"]

    def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
        """Views of parts of a dimension, of given lengths."""
        return split(input, list(split_sizes), dim)

    return split_with_sizes


# Other views ------------------------------------------------------------------------------------------------


def make_adjoint(functions: Functions) -> Function:
    """Makes ``adjoint(input)``."""
    transpose, conj = functions["transpose"], functions["conj"]

    def adjoint(input: Any) -> Any:
        """Conjugates of the transposed matrices along the last two dimensions; of real ones a view."""
        if input.ndim < 2:
            raise ArgumentError(
                "adjoint: it is only supported on matrices or batches of matrices. Got "
                f"{describe(input)}. Add a dimension with unsqueeze."
            )
        turned = transpose(input, -2, -1)
        return conj(turned) if np.dtype(input.dtype).kind == "c" else turned

    return adjoint


def _make_swapaxes(functions: Functions) -> Function:
    transpose = functions["transpose"]

    def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
        """Exchanges two dimensions; a view."""
        return transpose(input, axis0, axis1)

    return swapaxes


def _raise_one(functions: Functions, tensor: Any, count: int) -> Any:
    reshape = functions["reshape"]
    shape = tuple(tensor.shape)
    if count == 1 or len(shape) >= count:
        return tensor if len(shape) >= count else reshape(tensor, (1,))
    if count == 2:
        return reshape(tensor, (1, *shape) if shape else (1, 1))
    return reshape(tensor, {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}[len(shape)])


def _make_atleast(count: int) -> Callable[[Functions], Function]:
    def make(functions: Functions) -> Function:
        def atleast(*tensors: Any) -> Any:
            """Views with dimensions of length 1 put in where there are too few."""
            is_list = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
            found = tuple(_raise_one(functions, one, count) for one in (tensors[0] if is_list else tensors))
            return found if is_list or len(tensors) != 1 else found[0]

        return atleast

    return make


def _listed(tensors: tuple[Any, ...]) -> list[Any]:
    """The tensors given one by one, or in one sequence."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def _make_broadcast_tensors(functions: Functions) -> Function:
    expand = functions["expand"]

    def broadcast_tensors(*tensors: Any) -> Any:
        """Views of the tensors, broadcast to the shape that they have in common."""
        arrays = _listed(tensors)
        try:
            shape = np.broadcast_shapes(*[tuple(one.shape) for one in arrays])
        except ValueError as error:
            raise ArgumentError(
                f"broadcast_tensors: the sizes of the tensors must match, or be 1. Got "
                f"{', '.join(map(describe, arrays))}. Reshape one of them."
            ) from error
        return tuple(expand(one, shape) for one in arrays)

    return broadcast_tensors


def _make_meshgrid(functions: Functions) -> Function:
    reshape, expand = functions["reshape"], functions["expand"]

    def meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
        """Views that hold the coordinates of a grid, from one vector for each of its dimensions."""
        vectors = [reshape(one, (1,)) if not one.ndim else one for one in _listed(tensors)]
        if not vectors or any(one.ndim > 1 or one.dtype != vectors[0].dtype for one in vectors):
            raise ArgumentError(
                "meshgrid: expects vectors, or scalars, of one dtype. Got "
                f"{', '.join(map(describe, vectors)) or 'none'}. Flatten or convert them."
            )
        if indexing not in ("ij", "xy"):
            raise ArgumentError(
                f"meshgrid: indexing must be one of 'xy' or 'ij'. Got {indexing!r}. Choose one of them."
            )
        is_turned = indexing == "xy" and len(vectors) > 1
        axes = list(range(len(vectors)))
        axes[:2] = axes[1::-1] if is_turned else axes[:2]
        shape = tuple(vectors[axis].shape[0] for axis in axes)
        return tuple(
            expand(reshape(one, tuple(-1 if axis == place else 1 for axis in axes)), shape)
            for place, one in enumerate(vectors)
        )

    return meshgrid


# Joined -----------------------------------------------------------------------------------------------------


def _make_column_stack(functions: Functions) -> Function:
    reshape, hstack = functions["reshape"], functions["hstack"]

    def column_stack(tensors: Sequence[Any]) -> Any:
        """Joins vectors, as columns, and matrices along axis 1."""
        columns = [reshape(one, (-1, 1)) if one.ndim < 2 else one for one in tensors]
        return hstack(columns)

    return column_stack


def _make_block_diag(functions: Functions) -> Function:
    cat, pad = functions["cat"], functions["pad"]

    def block_diag(*tensors: Any) -> Any:
        """Makes a matrix of these along its diagonal, and 0 elsewhere."""
        blocks = [_raise_one(functions, one, 2) for one in tensors]
        if any(one.ndim > 2 for one in blocks):
            raise ArgumentError(
                "block_diag: input tensors must have 2 or fewer dimensions. Got "
                f"{', '.join(map(describe, blocks))}. Give matrices."
            )
        width = sum(one.shape[1] for one in blocks)
        starts = itertools.accumulate([0, *(one.shape[1] for one in blocks)])
        rows = [
            pad(one, [start, width - start - one.shape[1]])
            for one, start in zip(blocks, starts, strict=False)
        ]
        return cat(rows, 0)

    return block_diag


def _make_diagflat(functions: Functions) -> Function:
    diag, reshape = functions["diag"], functions["reshape"]

    def diagflat(input: Any, offset: int = 0) -> Any:
        """Makes the matrix whose diagonal holds the items, flat."""
        return diag(reshape(input, (-1,)), offset)

    return diagflat


def _make_cartesian_prod(functions: Functions) -> Function:
    meshgrid, stack, reshape = _make_meshgrid(functions), functions["stack"], functions["reshape"]

    def cartesian_prod(*tensors: Any) -> Any:
        """Makes all combinations of one item of each vector, one in each row."""
        if len(tensors) == 1:
            return tensors[0]
        return stack([reshape(one, (-1,)) for one in meshgrid(*tensors)], 1)

    return cartesian_prod


SHAPES: dict[str, Callable[[Functions], Function]] = {
    "adjoint": make_adjoint,
    **{f"atleast_{count}d": _make_atleast(count) for count in (1, 2, 3)},
    "block_diag": _make_block_diag,
    "broadcast_tensors": _make_broadcast_tensors,
    "cartesian_prod": _make_cartesian_prod,
    "column_stack": _make_column_stack,
    "diagflat": _make_diagflat,
    **{name: _make_split_along(name, least) for name, least in (("hsplit", 1), ("vsplit", 2), ("dsplit", 3))},
    "meshgrid": _make_meshgrid,
    "split_with_sizes": _make_split_with_sizes,
    "swapaxes": _make_swapaxes,
    "tensor_split": _make_tensor_split,
}
METHODS = (
    "adjoint",
    "diagflat",
    "dsplit",
    "hsplit",
    "split_with_sizes",
    "swapaxes",
    "tensor_split",
    "vsplit",
)
