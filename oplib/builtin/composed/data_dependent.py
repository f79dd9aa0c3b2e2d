"""Functions whose results have a data-dependent size: they read values, and so raise under a trace.

The differentiable part of each is an op on the indices that were found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.promotion import find_common_shape
from oplib.builtin.single_ops import ops
from oplib.builtin.values import are_indices, box_like, is_traced, read_known, read_values
from oplib.errors import ArgumentError, ArgumentTypeError, DimensionError, describe


def find_indices(condition: Any) -> tuple[Any, ...]:
    """Returns the positions of nonzero items, one tensor per axis: ``where(condition)``."""
    values = read_values("where", condition)
    return tuple(box_like(condition, index) for index in np.nonzero(np.atleast_1d(values)))


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Finds the indices of items that are not 0.

    Args:
        input: a tensor of any shape and dtype.
        as_tuple: whether to return one vector per dim.

    Returns:
        Ints, ``[count, ndim]``, in the order of the items; or a tuple of ``ndim`` vectors ``[count]``.

    Raises:
        TracingError: the values are traced.

    Gradient:
        None: indices are piecewise constant in the items.

    Example:
        >>> oplib.nonzero(oplib.tensor([0, 3, 4]), as_tuple=True)
        (tensor([1, 2]),)
    """
    values = read_values("nonzero", input)
    if not values.ndim and not as_tuple:
        return box_like(input, np.zeros((int(bool(values)), 0), np.int64))
    indices = np.nonzero(np.atleast_1d(values))
    if as_tuple:
        return tuple(box_like(input, index) for index in indices)
    return box_like(input, np.stack(indices, axis=1))


def argwhere(input: Any) -> Any:
    """Finds the indices of items that are not 0.

    Args:
        input: a tensor of any shape and dtype.

    Returns:
        Ints, ``[count, ndim]``, in the order of the items.

    Raises:
        TracingError: the values are traced.

    Gradient:
        None: indices are piecewise constant in the items.

    Example:
        >>> oplib.argwhere(oplib.tensor([0, 3, 4])).tolist()
        [[1], [2]]
    """
    return nonzero(input)


def masked_select(input: Any, mask: Any) -> Any:
    """Selects the items at which a mask is True.

    Args:
        input: a tensor of any dtype.

    Returns:
        A vector of the selected items, in order.

    Raises:
        ArgumentTypeError: the mask is no tensor.
        ArgumentError: it does not contain bools, or the shapes do not broadcast.
        TracingError: its values are traced.

    Gradient:
        The gradient of each item at its position, and 0 elsewhere.

    Example:
        >>> x = oplib.tensor([1.0, -2.0, 3.0])
        >>> oplib.masked_select(x, x > 0)
        tensor([1., 3.])
    """
    if getattr(mask, "dtype", None) is None:
        raise ArgumentTypeError("argument 'mask' is a Tensor", "Use oplib.tensor(...).")
    if mask.dtype != np.dtype(bool):
        raise ArgumentError("expected BoolTensor for mask", "Compare it with something.")
    holds = read_values("masked_select", mask)
    shape = find_common_shape(input, mask)
    indices = np.flatnonzero(np.broadcast_to(holds, shape))
    return ops.take(ops.expand(input, shape), box_like(input, indices))


def repeat_interleave(
    input: Any,
    repeats: Any = None,
    dim: int | None = None,
    *,
    output_size: Any = None,  # noqa: ARG001  torch's signature
) -> Any:
    """Repeats each item a given number of times.

    Args:
        input: a tensor of any shape and dtype; if ``repeats`` is omitted, the numbers of repetitions.
        repeats: an int, or a tensor of ints: one for all slices, or one per slice.
        output_size: accepted for parity; it has no effect.

    Returns:
        A tensor with repeated slices; for repetitions alone, the indices, each repeated.

    Raises:
        ArgumentError: a number of repetitions is negative or no int, or there are too many or too few
            numbers.
        TracingError: the numbers are a tensor whose values are traced.

    Gradient:
        The sum over the repetitions.

    Example:
        >>> oplib.repeat_interleave(oplib.tensor([7, 8]), oplib.tensor([2, 1]))
        tensor([7, 7, 8])
    """
    if isinstance(repeats, (int, float, str)):  # the schema reports the errors of float and str
        return ops.repeat_interleave(input, repeats, dim)
    counts = _read_counts(input if repeats is None else repeats)
    if repeats is None:
        return box_like(input, np.repeat(np.arange(counts.size), counts))
    if counts.dtype.kind not in "iu":
        raise ArgumentError("repeats has to be int32 or int64", "Convert it.")
    find_dim(input.ndim, 0 if dim is None else dim)
    whole, dim = (ops.reshape(input, (-1,)), 0) if dim is None else (input, dim)
    length = whole.shape[dim]
    if counts.size not in (1, length):
        raise ArgumentError("repeats must have the same size as input along dim", f"Give one, or {length}.")
    indices = np.repeat(np.arange(length), np.broadcast_to(counts.reshape(-1), (length,)))
    return ops.index_select(whole, dim, box_like(input, indices))


def _read_counts(repeats: Any) -> np.ndarray[Any, Any]:
    counts = read_values("repeat_interleave", repeats)
    if (counts < 0).any():
        raise ArgumentError(f"repeats can not be negative; one is {counts.min()}", "Give 0 or more.")
    return counts


def find_selected(values: Any, dim: int) -> int:
    """Returns the axis of slices. Slices without items cannot be distinguished, so torch refuses them too.

    Raises:
        DimensionError: the dim does not exist.
        ArgumentError: a dim other than the selected one has no items.
    """
    if not values.ndim:
        raise DimensionError(f"dimension specified as {dim} but tensor has no dimensions", "Leave it out.")
    axis = find_dim(values.ndim, dim)
    if 0 in values.shape[:axis] + values.shape[axis + 1 :]:
        raise ArgumentError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied",
            "Choose the dim of size 0.",
        )
    return axis


def unique(
    input: Any,
    sorted: bool = True,  # noqa: ARG001  always sorted
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Finds the unique items, or the unique slices along a dim; each nan counts as unique.

    Args:
        input: a tensor of any shape.
        return_inverse: whether to return the index of each item, or slice, among the unique ones.
        return_counts: whether to return the number of occurrences of each.
        dim: the dim of the slices; by default items are compared.

    Returns:
        The unique items or slices, sorted; a tuple if inverse or counts are requested.

    Raises:
        ArgumentError: the slices along it have no items.
        TracingError: the values are traced.

    Gradient:
        None: the result has no history.

    Example:
        >>> oplib.unique(oplib.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    values = read_values("unique", input)
    axis = None if dim is None else find_selected(values, dim)
    # Without counts numpy hashes integers, which takes twenty times as long as sorting or more.
    found, *further, counts = np.unique(
        values, return_inverse=return_inverse, return_counts=True, axis=axis, equal_nan=False
    )
    inverse = further[0].reshape(values.shape if dim is None else -1) if return_inverse else None
    return pack_unique(input, found, inverse, counts if return_counts else None)


def pack_unique(input: Any, found: Any, *others: Any) -> Any:
    """Returns unique items as a tensor, in a tuple with the others that are not None."""
    results = [box_like(input, found, found.dtype)]
    results += [box_like(input, other) for other in others if other is not None]
    return results[0] if len(results) == 1 else tuple(results)


def one_hot(input: Any, num_classes: int = -1) -> Any:
    """Returns 1 at the index given by each item, and 0 elsewhere.

    Args:
        input: default ints of any shape, the classes.

    Returns:
        Ints, ``[*input.shape, num_classes]``.

    Raises:
        ArgumentError: a class is negative or too high, or the number of classes cannot be inferred.
        UnsupportedDtypeError: the input has no ints.
        TracingError: the values are traced, so the size of the result is unknown.

    Gradient:
        None: indices are piecewise constant in the items.

    Example:
        >>> oplib.nn.functional.one_hot(oplib.tensor([0, 2])).tolist()
        [[1, 0, 0], [0, 0, 1]]
    """
    if num_classes >= 0 and is_traced(input):
        return ops.one_hot(input, num_classes)
    values = read_values("one_hot", input)
    if values.size and values.min() < 0:
        raise ArgumentError(f"class values must be non-negative, but got {values.min()}", "Shift them.")
    highest = int(values.max()) if values.size else -1
    if num_classes < 0:
        if not values.size:
            raise ArgumentError(
                "can not infer total number of classes from empty tensor", "Give num_classes."
            )
        num_classes = highest + 1
    if highest >= num_classes:
        raise ArgumentError(
            f"class values must be smaller than num_classes, {num_classes}, but got {highest}", "Give more."
        )
    return ops.one_hot(input, num_classes)


def take_rows(input: Any, weight: Any, padding_idx: int | None) -> Any:
    """Looks up rows of ``weight``; the row ``padding_idx``, which exists, has no gradient."""
    shape = weight.shape
    _check_table(input, shape)
    values = None if are_indices(input, shape[0]) else read_known(input)
    if values is not None and values.size:
        raise DimensionError(
            f"embedding: index out of range. Got indices from {values.min()} to {values.max()} for "
            f"{describe(weight)}. Pass indices below {shape[0]}."
        )
    padding = -1 if padding_idx is None else padding_idx % shape[0]
    return ops.embedding(weight, input, padding)


def _check_table(input: Any, shape: tuple[int, ...]) -> None:
    if input.dtype.kind not in "iu":
        raise ArgumentError("expected integers for indices", "Convert them: tensor.int().")
    if len(shape) != 2:
        raise ArgumentError("'weight' must be 2-D", "Pass the indices first, then the table.")


COMPOSED = (
    Composed(argwhere, is_method=True),
    Composed(masked_select, is_method=True, out=True),
    Composed(nonzero, is_method=True, out=True, deciding=("as_tuple",)),
    Composed(repeat_interleave, is_method=True),
    Composed(unique, is_method=True, deciding=("return_inverse", "return_counts")),
    Composed(one_hot, in_networks=True),
)
