# ruff: noqa: A002  the parameters are torch's
"""Functions whose results have a size that only the values tell: they read them, and so raise under a trace.

What is differentiable in them is an op on places that have been found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oplib.builtin.kernels.dims import find_dim
from oplib.builtin.kernels.promotion import find_common_shape
from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import box_like, is_traced, read_values
from oplib.errors import ArgumentError, ArgumentTypeError, DimensionError, describe


def find_places(condition: Any) -> tuple[Any, ...]:
    """Finds the places of items that are not 0, as one tensor for each axis: ``where(condition)``."""
    values = read_values("where", condition)
    return tuple(box_like(condition, one) for one in np.nonzero(np.atleast_1d(values)))


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Finds the places of items that are not 0.

    Args:
        input: of any shape and dtype.
        as_tuple: whether there is to be a vector for each dim.

    Returns:
        Ints, ``[count, ndim]``, in the order of the items; or a tuple of ``ndim`` vectors ``[count]``.

    Raises:
        TracingError: the values are not known yet.

    Gradient:
        None: places do not change with the items but by a step.

    Source:
        torch.nonzero

    Example:
        >>> import oplib
        >>> oplib.nonzero(oplib.tensor([0, 3, 4]), as_tuple=True)
        (tensor([1, 2]),)
    """
    values = read_values("nonzero", input)
    if not values.ndim and not as_tuple:
        return box_like(input, np.zeros((int(bool(values)), 0), np.int64))
    places = np.nonzero(np.atleast_1d(values))
    if as_tuple:
        return tuple(box_like(input, one) for one in places)
    return box_like(input, np.stack(places, axis=1))


def argwhere(input: Any) -> Any:
    """Finds the places of items that are not 0.

    Args:
        input: of any shape and dtype.

    Returns:
        Ints, ``[count, ndim]``, in the order of the items.

    Raises:
        TracingError: the values are not known yet.

    Gradient:
        None: places do not change with the items but by a step.

    Source:
        torch.argwhere

    Example:
        >>> import oplib
        >>> oplib.argwhere(oplib.tensor([0, 3, 4])).tolist()
        [[1], [2]]
    """
    return nonzero(input)


def masked_select(input: Any, mask: Any) -> Any:
    """Takes the items where a mask holds.

    Args:
        input: of any dtype.
        mask: bools, of a shape that broadcasts with that of the input.

    Returns:
        A vector of the items, in order.

    Raises:
        ArgumentTypeError: the mask is no tensor.
        ArgumentError: it does not hold bools, or the shapes do not broadcast.
        TracingError: its values are not known yet.

    Gradient:
        Put where the items were taken, 0 elsewhere.

    Source:
        torch.masked_select

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0, -2.0, 3.0])
        >>> oplib.masked_select(x, x > 0)
        tensor([1., 3.])
    """
    if getattr(mask, "dtype", None) is None:
        raise ArgumentTypeError(
            f"masked_select: argument 'mask' is a Tensor. Got {describe(mask)}. Use oplib.tensor(...)."
        )
    if mask.dtype != np.dtype(bool):
        raise ArgumentError(
            f"masked_select: expected BoolTensor for mask. Got {describe(mask)}. Compare it with something."
        )
    holds = read_values("masked_select", mask)
    shape = find_common_shape("masked_select", input, mask)
    places = np.flatnonzero(np.broadcast_to(holds, shape))
    return ops.take(ops.expand(input, shape), box_like(input, places))


def repeat_interleave(
    input: Any,
    repeats: Any = None,
    dim: int | None = None,
    *,
    output_size: Any = None,  # noqa: ARG001  torch's signature
) -> Any:
    """Repeats each item so many times, or each its own number of times.

    Args:
        input: of any shape and dtype; the numbers themselves where ``repeats`` is left out.
        repeats: an int, or a tensor of ints: one for all slices, or one for each.
        dim: which dim; by default the flat tensor.
        output_size: not needed; it has no effect.

    Returns:
        A tensor in which a slice stands as often as told; of numbers alone the places, each that often.

    Raises:
        ArgumentError: a number is negative or no int, or there are too many or too few.
        DimensionError: there is no such dim.
        TracingError: the numbers are a tensor whose values are not known yet.

    Gradient:
        Summed over the repetitions.

    Source:
        torch.repeat_interleave

    Example:
        >>> import oplib
        >>> oplib.repeat_interleave(oplib.tensor([7, 8]), oplib.tensor([2, 1]))
        tensor([7, 7, 8])
    """
    if isinstance(repeats, (int, float, str)):  # the schema says what is wrong with the last two
        return ops.repeat_interleave(input, repeats, dim)
    counts = _read_counts(input if repeats is None else repeats)
    if repeats is None:
        return box_like(input, np.repeat(np.arange(counts.size), counts))
    if counts.dtype.kind not in "iu":
        raise ArgumentError(
            f"repeat_interleave: repeats has to be int32 or int64. Got {describe(repeats)}. Convert it."
        )
    find_dim("repeat_interleave", input.ndim, 0 if dim is None else dim)
    whole, dim = (ops.reshape(input, (-1,)), 0) if dim is None else (input, dim)
    length = whole.shape[dim]
    if counts.size not in (1, length):
        raise ArgumentError(
            f"repeat_interleave: repeats must have the same size as input along dim. Got {counts.size} "
            f"of them for {describe(input)} along {dim}. Give one, or {length}."
        )
    places = np.repeat(np.arange(length), np.broadcast_to(counts.reshape(-1), (length,)))
    return ops.index_select(whole, dim, box_like(input, places))


def _read_counts(repeats: Any) -> np.ndarray[Any, Any]:
    counts = read_values("repeat_interleave", repeats)
    if (counts < 0).any():
        raise ArgumentError(
            f"repeat_interleave: repeats can not be negative. Got {counts.tolist()}. Give 0 or more."
        )
    return counts


def check_unselected(op: str, values: Any, axis: int) -> None:
    """Refuses slices of no items, as torch does: nothing tells them apart.

    Raises:
        ArgumentError: a dim besides the one selected has no items.
    """
    if 0 in values.shape[:axis] + values.shape[axis + 1 :]:
        raise ArgumentError(
            f"{op}: There are 0 sized dimensions, and they aren't selected, so unique cannot be applied. Got "
            f"{describe(values)} and dim={axis}. Choose that dim."
        )


def unique(
    input: Any,
    sorted: bool = True,  # noqa: ARG001  always sorted
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Finds the different items, of which each nan is one, or the different slices along a dim.

    Args:
        input: of any shape.
        sorted: has no effect: they always are.
        return_inverse: also give for each item, or slice, where it stands among the different ones.
        return_counts: also give how often each is there.
        dim: which dim; by default items are compared.

    Returns:
        The different ones, in order; a tuple with what else was asked for.

    Raises:
        DimensionError: there is no such dim.
        ArgumentError: slices along it have no items.
        TracingError: the values are not known yet.

    Gradient:
        None: the result does not lead back to the input.

    Source:
        torch.unique

    Example:
        >>> import oplib
        >>> oplib.unique(oplib.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    values = read_values("unique", input)
    if dim is not None:
        check_unselected("unique", values, find_dim("unique", values.ndim, dim))
    found, inverse, counts = np.unique(
        values, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    results = [box_like(input, found, values.dtype)]
    if return_inverse:
        results.append(box_like(input, inverse.reshape(values.shape if dim is None else -1)))
    if return_counts:
        results.append(box_like(input, counts))
    return results[0] if len(results) == 1 else tuple(results)


def one_hot(input: Any, num_classes: int = -1) -> Any:
    """Puts 1 at the place that each item tells, and 0 elsewhere.

    Args:
        input: default ints, the classes, of any shape.
        num_classes: how many there are; -1 for one more than the highest.

    Returns:
        Ints, ``[*input.shape, num_classes]``.

    Raises:
        ArgumentError: a class is negative or too high, or there is none to count by.
        UnsupportedDtypeError: they are no ints.
        TracingError: the values are not known yet, and neither is how many classes there are.

    Gradient:
        None: places do not change with the items but by a step.

    Source:
        torch.nn.functional.one_hot

    Example:
        >>> import oplib
        >>> oplib.nn.functional.one_hot(oplib.tensor([0, 2])).tolist()
        [[1, 0, 0], [0, 0, 1]]
    """
    if num_classes >= 0 and is_traced(input):
        return ops.one_hot(input, num_classes)
    values = read_values("one_hot", input)
    if values.size and values.min() < 0:
        raise ArgumentError(f"one_hot: class values must be non-negative. Got {values.min()}. Shift them.")
    highest = int(values.max()) if values.size else -1
    if num_classes < 0:
        if not values.size:
            raise ArgumentError(
                f"one_hot: can not infer total number of classes from empty tensor. Got "
                f"{describe(input)}. Give num_classes."
            )
        num_classes = highest + 1
    if highest >= num_classes:
        raise ArgumentError(
            f"one_hot: class values must be smaller than num_classes. Got {highest} of "
            f"{num_classes}. Give more."
        )
    return ops.one_hot(input, num_classes)


def take_rows(input: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """Takes rows of ``weight`` by their places; the row of padding, which there is, has no gradient."""
    _check_table(input, weight)
    if not is_traced(input):
        values = read_values("embedding", input)
        if values.size and not 0 <= values.min() <= values.max() < weight.shape[0]:
            raise DimensionError(
                f"embedding: index out of range. Got places from {values.min()} to {values.max()} for "
                f"{describe(weight)}. Give some below {weight.shape[0]}."
            )
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return ops.embedding(weight, input, padding)


def _check_table(input: Any, weight: Any) -> None:
    if np.dtype(input.dtype).kind not in "iu":
        raise ArgumentError(
            f"embedding: expected integers for places. Got {describe(input)}. Convert them: tensor.int()."
        )
    if weight.ndim != 2:
        raise ArgumentError(
            f"embedding: 'weight' must be 2-D. Got {describe(weight)} for places {describe(input)}. Give the "
            "places first, then the table."
        )


COMPOSED = (
    Composed(argwhere, is_method=True),
    Composed(masked_select, is_method=True, out=True),
    Composed(nonzero, is_method=True, out=True, deciding=("as_tuple",)),
    Composed(repeat_interleave, is_method=True),
    Composed(
        unique,
        is_method=True,
        deciding=(
            "return_inverse",
            "return_counts",
        ),
    ),
    Composed(one_hot, in_networks=True),
)
