"""Functions that are made of several ops, or call an op with other arguments than its schema has."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError, ArgumentValueError

_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def einsum(equation: Any, *operands: Any) -> Any:
    """Sums products of items of tensors, along the axes of an equation such as ``"ij,jk->ik"``.

    Args:
        equation: a letter for each dim of each tensor, ``...`` for broadcast dims, and after ``->`` the dims
            of the result. Without ``->``, the result has the letters that occur once, in alphabetical order.
        *operands: the tensors, one by one or in one list. Instead of an equation, each may be followed by a
            list of numbers below 52 for its dims, and the last one by the list of the result.

    Returns:
        A tensor of the promoted dtype.

    Raises:
        ArgumentError: the equation does not fit the tensors.
        ArgumentValueError: there is no tensor.

    Gradient:
        The gradient of the products and sums.

    Example:
        >>> oplib.einsum("ij,j->i", oplib.tensor([[1.0, 2.0], [3.0, 4.0]]), oplib.ones(2))
        tensor([3., 7.])
    """
    if not isinstance(equation, str):
        return ops.einsum(*_read_sublists([equation, *operands]))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise ArgumentValueError("there must be at least one operand", "Give the tensors after it.")
    return ops.einsum(equation, list(operands))


def _read_sublists(arguments: list[Any]) -> tuple[str, list[Any]]:
    """Returns the equation and the tensors of ``einsum(x, [0, 1], y, [1, 2], [0, 2])``."""

    def render(numbers: Sequence[Any]) -> str:
        return "".join("..." if number is Ellipsis else _LETTERS[number] for number in numbers)

    count = len(arguments) // 2
    equation = ",".join(map(render, arguments[1 : 2 * count : 2]))
    if len(arguments) % 2:
        equation += f"->{render(arguments[-1])}"
    return equation, arguments[: 2 * count : 2]


def tensordot(a: Any, b: Any, dims: int | Sequence[Sequence[int]] = 2) -> Any:
    """Sums products of items of two tensors over some dims of both.

    Args:
        a: a tensor of any shape.
        b: a tensor of any shape that agrees in these dims.
        dims: the number of dims: the last of ``a`` and the first of ``b``; or a list of dims for each.

    Returns:
        A tensor with the other dims of ``a``, followed by those of ``b``.

    Raises:
        ArgumentError: the number is negative, or the sizes do not agree.

    Gradient:
        The gradient of the products and sums.

    Example:
        >>> oplib.tensordot(oplib.ones(2, 3), oplib.ones(3, 2), 1).tolist()
        [[3.0, 3.0], [3.0, 3.0]]
    """
    if not isinstance(dims, int):
        return ops.tensordot(a, b, list(dims[0]), list(dims[1]))
    if dims < 0:
        raise ArgumentError("expects dims >= 0", "Pass a number of axes.")
    return ops.tensordot(a, b, list(range(a.ndim - dims, a.ndim)), list(range(dims)))


def norm(
    input: Any, p: float | str | None = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """Computes the norm of all items, or of the vectors or matrices along given dims.

    Args:
        input: a floating or complex tensor of any shape.
        p: the order: a number, "fro", which means 2, or "nuc" for matrices.
        dim: one dim or several, for "nuc" two; by default all.
        dtype: the dtype of the computation; by default that of the input.

    Returns:
        A real tensor without these dims.

    Raises:
        ArgumentError: a matrix order with other than two dims, or an order that is not supported.
        UnsupportedDtypeError: the input has ints or bools.

    Gradient:
        The gradient of ``linalg.vector_norm``, or of ``linalg.matrix_norm``.

    Example:
        >>> oplib.norm(oplib.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if isinstance(p, str) and p != "fro":
        dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
        return ops.linalg_matrix_norm(input, p, dims, keepdim, dtype=dtype)
    order = 2 if p in ("fro", None) else p
    return ops.linalg_vector_norm(input, order, dim, keepdim, dtype=dtype)


def float_power(input: Any, exponent: Any) -> Any:
    """Computes a power in float64, or in complex128 if an operand is complex.

    Args:
        input: a tensor; or a number, if the exponent is a tensor.
        exponent: a tensor or a number; the shapes broadcast.

    Returns:
        A tensor of dtype float64 or complex128.

    Raises:
        DtypeError: JAX's x64 is off, so these dtypes do not exist; ``pow`` uses the dtype of the operands.
        ArgumentError: the shapes do not broadcast.

    Gradient:
        The gradient of ``pow``.

    Example:
        >>> import jax
        >>> with jax.enable_x64(True):
        ...     print(oplib.float_power(oplib.tensor([2, 3]), 0.5))
        tensor([1.4142, 1.7321], dtype=oplib.float64)
    """
    is_complex = any(map(_is_complex, (input, exponent)))
    dtype = np.dtype(np.complex128 if is_complex else np.float64)
    first, second = (
        ops._to_copy(operand, dtype)
        if hasattr(operand, "dtype")
        else complex(operand)
        if is_complex
        else float(operand)
        for operand in (input, exponent)
    )
    return ops.pow(first, second)


def _is_complex(operand: Any) -> bool:
    return isinstance(operand, complex) or np.dtype(getattr(operand, "dtype", bool)).kind == "c"


COMPOSED = (
    Composed(einsum),
    Composed(norm, is_method=True, out=True),
    Composed(tensordot, out=True),
    Composed(float_power, is_method=True, in_place=True, out=True, is_exact=True),
)
