"""Functions of shapes: transposed axes, broadcast tensors, and joined tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.rows.row import Function
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError
from oplib.protocols import Values
from oplib.tensor import empty

# Views ------------------------------------------------------------------------------------------------------


def adjoint(input: Any) -> Any:
    """Transposes and conjugates matrices; for real matrices the result is a view.

    Args:
        input: ``[..., m, n]``, of any dtype; a tensor without dims counts as a matrix of one item.

    Returns:
        A tensor, ``[..., n, m]``.

    Raises:
        ArgumentError: the input has one dim.

    Gradient:
        The gradient of ``transpose`` and ``conj``.

    Example:
        >>> oplib.adjoint(oplib.tensor([[1, 2]])).tolist()
        [[1], [2]]
    """
    if input.ndim == 1:
        raise ArgumentError(
            "it is only supported on matrices or batches of matrices", "Add a dimension with unsqueeze."
        )
    turned = ops.transpose(input, -2, -1) if input.ndim else input
    return ops.conj(turned) if np.dtype(input.dtype).kind == "c" else turned


def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Exchanges two dims, as a view.

    Args:
        input: a tensor of any shape and dtype.
        axis0: the first dim.
        axis1: the second dim.

    Returns:
        A view.

    Raises:
        DimensionError: the dim does not exist.

    Gradient:
        The gradient of the view.

    Example:
        >>> oplib.swapaxes(oplib.ones(2, 3), 0, 1).shape
        (3, 2)
    """
    return ops.transpose(input, axis0, axis1)


def _raise_one(tensor: Any, count: int) -> Any:
    shape = tuple(tensor.shape)
    if len(shape) >= count:
        return tensor
    return ops.reshape(tensor, ((1, 1, 1), (1, *shape, 1), (*shape, 1))[len(shape)][:count])


_ATLEAST = """Returns views with at least {count} dims; the added dims have length 1.

Args:
    *tensors: tensors of any shape and dtype, one by one or in one sequence.

Returns:
    A view, or a tuple of views for several tensors or a sequence. A tensor with enough dims is returned
    unchanged.

Gradient:
    The gradient of the view.

Example:
    >>> oplib.atleast_{count}d(oplib.tensor([1, 2])).shape
    {shape}
"""


def _make_atleast(count: int, shape: tuple[int, ...]) -> Function:
    def atleast(*tensors: Any) -> Any:
        raised = tuple(_raise_one(tensor, count) for tensor in _listed(tensors))
        is_one = len(tensors) == 1 and not isinstance(tensors[0], (list, tuple))
        return raised[0] if is_one else raised

    atleast.__name__, atleast.__doc__ = f"atleast_{count}d", _ATLEAST.format(count=count, shape=shape)
    return atleast


def _listed(tensors: Values) -> list[Any]:
    """Returns the tensors, given one by one or in one sequence, as a list."""
    return list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors)


def broadcast_tensors(*tensors: Any) -> Any:
    """Returns views of tensors, broadcast to their common shape.

    Args:
        *tensors: tensors of any dtypes, one by one or in one sequence.

    Returns:
        A tuple of views; an item may occur several times in a view.

    Raises:
        ArgumentError: the shapes do not broadcast.

    Gradient:
        The gradient of the view: the sum over the occurrences of an item.

    Example:
        >>> [x.shape for x in oplib.broadcast_tensors(oplib.ones(2, 1), oplib.ones(3))]
        [(2, 3), (2, 3)]
    """
    arrays = _listed(tensors)
    try:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
    except ValueError:
        raise ArgumentError("the sizes of the tensors must match, or be 1", "Reshape one of them.") from None
    return tuple(ops.expand(array, shape) for array in arrays)


def meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    """Returns views with the coordinates of a grid.

    Args:
        *tensors: one vector of coordinates per dim, all of one dtype, one by one or in one sequence.
        indexing: "ij", in which the first vector varies along dim 0, or "xy", in which it varies along dim 1.

    Returns:
        A tuple of views of the shape of the grid, one per vector.

    Raises:
        ArgumentError: there is no vector, a tensor has more dims or another dtype, or ``indexing`` is
            invalid.

    Gradient:
        The gradient of the view: the sum over the occurrences of an item.

    Example:
        >>> rows, columns = oplib.meshgrid(oplib.tensor([1, 2]), oplib.tensor([3, 4]))
        >>> rows.tolist(), columns.tolist()
        ([[1, 1], [2, 2]], [[3, 4], [3, 4]])
    """
    vectors = [_raise_one(tensor, 1) for tensor in _listed(tensors)]
    if not vectors or any(vector.ndim > 1 or vector.dtype != vectors[0].dtype for vector in vectors):
        raise ArgumentError("expects vectors, or scalars, of one dtype", "Flatten or convert them.")
    if indexing not in ("ij", "xy"):
        raise ArgumentError("indexing must be one of 'xy' or 'ij'", "Choose one of them.")
    axes = list(range(len(vectors)))
    axes[:2] = axes[1::-1] if indexing == "xy" else axes[:2]
    shape = tuple(vectors[axis].shape[0] for axis in axes)
    return tuple(
        ops.expand(ops.reshape(vector, tuple(-1 if axis == index else 1 for axis in axes)), shape)
        for index, vector in enumerate(vectors)
    )


# Joined -----------------------------------------------------------------------------------------------------


def block_diag(*tensors: Any) -> Any:
    """Returns a matrix with given matrices along its diagonal, and 0 elsewhere.

    Args:
        *tensors: matrices, vectors (as rows) and scalars; of none the result is ``[1, 0]``.

    Returns:
        A matrix of the dtype that they promote to.

    Raises:
        ArgumentError: a tensor has more than two dims.

    Gradient:
        The gradient of the matrices.

    Example:
        >>> oplib.block_diag(oplib.tensor([[1, 2]]), oplib.tensor(3)).tolist()
        [[1, 2, 0], [0, 0, 3]]
    """
    return ops.block_diag(list(tensors or (empty(1, 0),)))


def cartesian_prod(*tensors: Any) -> Any:
    """Returns all combinations of one item of each vector.

    Args:
        *tensors: vectors of one dtype.

    Returns:
        A tensor with one combination per row; a single vector is returned unchanged.

    Raises:
        ArgumentError: there is no vector, or a tensor has more than one dim or another dtype.

    Gradient:
        The gradient of the view and of ``stack``.

    Example:
        >>> oplib.cartesian_prod(oplib.tensor([1, 2]), oplib.tensor([3])).tolist()
        [[1, 3], [2, 3]]
    """
    if len(tensors) == 1 and getattr(tensors[0], "ndim", 0) == 1:
        return tensors[0]
    return ops.stack([ops.flatten(grid) for grid in meshgrid(*tensors)], 1)


COMPOSED = (
    Composed(adjoint, is_method=True),
    Composed(_make_atleast(1, (2,)), returns="Any"),
    Composed(_make_atleast(2, (1, 2)), returns="Any"),
    Composed(_make_atleast(3, (1, 2, 1)), returns="Any"),
    Composed(block_diag),
    Composed(broadcast_tensors, returns="Tensor[]"),
    Composed(cartesian_prod),
    Composed(meshgrid, returns="Tensor[]"),
    Composed(swapaxes, is_method=True),
)
