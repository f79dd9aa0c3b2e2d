"""Answers about tensors, and tensors in another form, under names that ported programs use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.builtin.values import read_values
from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from oplib.tensor import Tensor, get_default_dtype
from oplib.tensor.factories.from_data import tensor


def is_nonzero(input: Any) -> bool:
    """Tells whether the only item of a tensor is not 0.

    Args:
        input: a tensor with one item, of any dtype.

    Returns:
        A bool.

    Raises:
        ArgumentError: the tensor has no item, or several.
        TracingError: the value is traced.

    Gradient:
        None: the result is no tensor.

    Example:
        >>> oplib.is_nonzero(oplib.tensor([0.0]))
        False
    """
    values = read_values("is_nonzero", input)
    if values.size != 1:
        raise ArgumentError(
            f"Boolean value of Tensor with {'several' if values.size else 'no'} values is ambiguous",
            "Use any() or all().",
        )
    return bool(values.reshape(()))


def is_inference(input: Any) -> bool:
    """Tells whether a tensor was made in inference mode.

    Args:
        input: a Tensor; an array never was.

    Returns:
        A bool.

    Gradient:
        None: the result is no tensor.

    Example:
        >>> oplib.is_inference(oplib.ones(1))
        False
    """
    return isinstance(input, Tensor) and input.is_inference()


def resolve_conj(input: Any) -> Any:
    """Returns the tensor itself: conjugates are always computed here.

    Args:
        input: a tensor of any shape and dtype.

    Returns:
        The same object.

    Gradient:
        The gradient of the tensor itself.

    Example:
        >>> oplib.resolve_conj(oplib.tensor([1j]).conj())
        tensor([0.-1.j])
    """
    return input


def resolve_neg(input: Any) -> Any:
    """Returns the tensor itself: negated numbers are always computed here.

    Args:
        input: a tensor of any shape and dtype.

    Returns:
        The same object.

    Gradient:
        The gradient of the tensor itself.

    Example:
        >>> oplib.resolve_neg(oplib.tensor([1j]).conj().imag)
        tensor([-1.])
    """
    return input


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Makes a tensor without dims from a number.

    Args:
        s: the number.
        dtype: the dtype; by default the default floating dtype, even for an integer.

    Returns:
        A tensor of shape ``()``.

    Raises:
        ArgumentTypeError: ``s`` is no number.

    Gradient:
        None: no argument is differentiable.

    Example:
        >>> oplib.scalar_tensor(3)
        tensor(3.)
    """
    if not isinstance(s, (bool, int, float, complex)):
        raise ArgumentTypeError("argument 's' is a number", "Use oplib.tensor.")
    kind = get_default_dtype() if dtype is None else dtype
    return tensor(s, dtype=kind, device=device, requires_grad=requires_grad)


def constant_pad_nd(input: Any, pad: Sequence[int], value: complex = 0) -> Any:
    """Adds positions with one value at both ends of the last dims.

    Args:
        input: a tensor of any shape and dtype.
        pad: the numbers of positions before and after, the last dim first; negative ones take positions away.
        value: the value.

    Returns:
        A tensor of the dtype of the input.

    Raises:
        ArgumentError: there are too many numbers, or an odd count, or an axis loses all its items.
        ArgumentOverflowError: the dtype cannot hold the value.

    Gradient:
        The gradient of the positions of the input.

    Example:
        >>> oplib.constant_pad_nd(oplib.tensor([1, 2]), [1, 0], 7)
        tensor([7, 1, 2])
    """
    return ops.pad(input, list(pad), "constant", value)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Converts indices of a flat tensor to one index for each dim.

    Args:
        indices: ints of any shape; those beyond the last item start again, as in torch.
        shape: the shape of the tensor: an int, or a sequence of ints.

    Returns:
        A tuple with a tensor like the indices for each dim.

    Raises:
        ArgumentTypeError: the indices are no ints.
        ArgumentValueError: a size is negative.

    Gradient:
        None: indices are ints.

    Example:
        >>> oplib.unravel_index(oplib.tensor([4, 1]), (2, 3))
        (tensor([1, 0]), tensor([1, 1]))
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
    if np.dtype(getattr(indices, "dtype", bool)).kind not in "iu":
        raise ArgumentTypeError("expected 'indices' to be integer dtype", "Convert them.")
    if any(size < 0 for size in sizes):
        raise ArgumentValueError("'shape' cannot have negative values", "Give the sizes of the tensor.")
    steps = [math.prod(sizes[index + 1 :]) for index in range(len(sizes))]
    return tuple(
        ops.remainder(ops.floor_divide(indices, max(step, 1)), max(size, 1))
        for step, size in zip(steps, sizes, strict=True)
    )


COMPOSED = (
    Composed(constant_pad_nd),
    Composed(is_inference, returns="bool"),
    Composed(is_nonzero, is_method=True, returns="bool"),
    Composed(resolve_conj, is_method=True),
    Composed(resolve_neg, is_method=True),
    Composed(scalar_tensor, makes=True),
    Composed(unravel_index, returns="Tensor[]"),
)
