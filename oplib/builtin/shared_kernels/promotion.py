"""The conversion of operands to one dtype by torch's rule, and to one shape by broadcasting.

The code runs while a kernel is traced, and makes each conversion of an array explicit. So the kernels work
under ``jax_numpy_rank_promotion=raise`` and ``jax_numpy_dtype_promotion=strict``. A Python number takes the
dtype of the array that it meets; ``strong`` is for bools, for ``lax``, and where a number would make integers
floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.autograd.engine.validation import sum_to
from oplib.builtin.rows.row import Function
from oplib.errors import ArgumentError
from oplib.protocols import Values
from oplib.tensor import get_default_dtype, result_dtype, scalar_dtype
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import COMPLEX, HALF, INTEGRAL, saturate
from oplib.tensor.shapes.broadcasting import broadcast_in_dim

Dtype = np.dtype[Any]
_PYTHON_KINDS = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def is_number(operand: Any) -> bool:
    """Tells whether an operand was a Python number, which arrives as a weakly typed array without axes."""
    aval = jax.typeof(operand)
    return aval.weak_type and not aval.shape


def promote_operands(*operands: Any) -> Dtype:
    """Returns the dtype of the arithmetic result of these operands."""
    ranks: tuple[list[Dtype], list[Dtype], list[Dtype]] = ([], [], [])
    for operand in operands:
        if is_number(operand):
            ranks[2].append(scalar_dtype(_PYTHON_KINDS[operand.dtype.kind]))
        else:
            ranks[0 if operand.ndim else 1].append(operand.dtype)
    return result_dtype(tuple(ranks[0]), tuple(ranks[1]), tuple(ranks[2]))


def check_dtypes(*operands: Any) -> None:
    """Checks that operands, of which some may be None, have one dtype.

    Raises:
        ArgumentError: they have several.
    """
    if len({operand.dtype for operand in operands if operand is not None}) > 1:
        raise ArgumentError("expected all operands to have the same dtype", "Convert one: tensor.to(dtype).")


def is_integral(dtype: Dtype) -> bool:
    """Tells whether a dtype is integral or bool."""
    return dtype in INTEGRAL or dtype == dtypes.bool


def to_floating_dtype(dtype: Dtype) -> Dtype:
    """Returns the dtype of a floating result for an input dtype."""
    return get_default_dtype() if is_integral(dtype) else dtype


def to_floating(array: Any) -> Any:
    """Converts integers and bools to the default dtype."""
    return lax.convert_element_type(array, to_floating_dtype(array.dtype))


@jax.custom_jvp
def _saturate_float8(array: Any) -> Any:
    return saturate(array, dtypes.float8_e4m3fn)


@_saturate_float8.defjvp
def _differentiate_saturation(primals: Any, tangents: Any) -> Any:  # as of any conversion
    return _saturate_float8(*primals), lax.convert_element_type(tangents[0], np.float32)


def convert_saturated(array: Any, dtype: Dtype) -> Any:
    """Converts the items of an array; numbers that float8_e4m3fn does not hold become its largest one."""
    is_floating = dtype == dtypes.float8_e4m3fn and jnp.issubdtype(array.dtype, jnp.floating)
    saturated = _saturate_float8(array) if is_floating else saturate(array, dtype)
    return lax.convert_element_type(saturated, dtype)


def broadcast(arrays: Sequence[Any]) -> list[Any]:
    """Broadcasts arrays to their common shape.

    Raises:
        ArgumentError: there is no common shape.
    """
    shape = find_common_shape(*arrays)
    return [broadcast_to(array, shape) for array in arrays]


def meet(*operands: Any) -> list[Any]:
    """Returns operands in their common dtype and shape; integers stay integers."""
    dtype = promote_operands(*operands)
    return broadcast([lax.convert_element_type(operand, dtype) for operand in operands])


def find_common_shape(*arrays: Any, lead: int | None = None) -> tuple[int, ...]:
    """Returns the common shape of arrays, or of their first axes.

    Args:
        op: the op's name, for the error.
        *arrays: objects with a shape.
        lead: the end of the axes to broadcast: ``-2`` for batches of matrices.

    Raises:
        ArgumentError: there is no common shape.
    """
    try:
        shape: Any = jnp.broadcast_shapes(*[array.shape[:lead] for array in arrays])
    except ValueError:
        which = "sizes" if lead is None else f"sizes of the axes before the last {-lead}"
        raise ArgumentError(
            f"the {which} of the operands must match, or be 1", "Reshape one of them."
        ) from None
    return tuple(shape)


def broadcast_batches(*matrices: Any) -> list[Any]:
    """Broadcasts the axes of matrices before the last two.

    Raises:
        ArgumentError: these axes have no common shape.
    """
    batch = find_common_shape(*matrices, lead=-2)
    return [broadcast_to(matrix, (*batch, *matrix.shape[-2:])) for matrix in matrices]


def broadcast_to(array: Any, shape: tuple[int, ...]) -> Any:
    """Broadcasts one array to a shape that is known to fit."""
    if array.shape == shape:
        return array
    return broadcast_in_dim(array, shape, tuple(range(len(shape) - array.ndim, len(shape))))


def compute_dtype(dtype: Dtype, operands: Sequence[Any]) -> Dtype:
    """Returns single precision for half precision beside a Python number: it is rounded once, as in torch.

    Raises:
        ArgumentError: a factor is complex, and the result real.
    """
    if dtype not in COMPLEX and any(operand.dtype in COMPLEX for operand in operands):
        raise ArgumentError(
            f"a complex value cannot be converted to type {dtype.name} without overflow",
            "Convert the tensors: tensor.to(dtype).",
        )
    return dtypes.float32 if dtype in HALF and any(map(is_number, operands)) else dtype


def elementwise(
    function: Function, *, floating: bool = False, check: Callable[..., None] | None = None
) -> Function:
    """Makes the kernel of an op with several operands from a function of arrays of one dtype and shape.

    Args:
        function: a function of as many arrays as the op has operands.
        floating: integers are converted to the default dtype.
        check: ``check(*operands)`` raises for dtypes that the op does not accept.
    """

    def kernel(*operands: Any) -> Any:
        if check is not None:
            check(*operands)
        dtype = promote_operands(*operands)
        if floating:
            dtype = to_floating_dtype(dtype)
        own = compute_dtype(dtype, operands)
        arrays = broadcast([lax.convert_element_type(operand, own) for operand in operands])
        return lax.convert_element_type(function(*arrays), dtype)

    return kernel


def compare_items(function: Function, self: Any, other: Any) -> Any:
    """Computes a comparison, which returns bools."""
    return function(*meet(self, other))


def on_floating(function: Function) -> Function:
    """Makes the kernel of a function of one array with a floating result; halves are computed in single."""
    return lambda self: in_single(function)(to_floating(self))


def in_single(function: Function) -> Function:
    """Makes a function of several steps compute half precision in single and round once, as in torch.

    Operands other than the first one may be None.
    """

    def computed(*arrays: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype not in HALF:
            return function(*arrays)
        wide = [
            array if array is None else lax.convert_element_type(array, dtypes.float32) for array in arrays
        ]
        return lax.convert_element_type(function(*wide), dtype)

    return computed


def sum_items(array: Any, axes: Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """Sums items in their dtype, and halves in single: ``jnp.sum`` adds in a dtype that it is given."""
    return in_single(lambda wide: jnp.sum(wide, axis=axes, keepdims=keepdims, dtype=wide.dtype))(array)


def _choose_item(reduce: Function, array: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Returns the extremum that a reduction finds, and nan if there is one.

    XLA's own reduction of 4,096 items or more passes over nan on CPUs; a sum of squares does not.
    """
    best = reduce(array, axis=axis, keepdims=keepdims)
    if is_integral(array.dtype):
        return best
    squares = jnp.square(lax.stop_gradient(array))
    is_nan = jnp.isnan(jnp.sum(squares, axis=axis, keepdims=keepdims))
    return jnp.where(is_nan, strong(jnp.nan, best), best)


find_largest, find_smallest = partial(_choose_item, jnp.max), partial(_choose_item, jnp.min)


def _choose_of_two(choose: Function, x: Any, y: Any) -> Any:
    """Returns the item that XLA chooses, or nan: its own choice within a sum passes over nan on CPUs."""
    return jnp.where((x != x) | (y != y), x + y, choose(x, y))


choose_larger, choose_smaller = partial(_choose_of_two, lax.max), partial(_choose_of_two, lax.min)


def get_items(get: Function, array: Any, *indices: Any) -> Any:
    """Returns selected items of an array; in half precision the gradients of one item are added in single.

    Args:
        get: a linear function ``(array, *indices)`` that selects items.
        array: the items.
        *indices: arrays of integers.
    """
    return _pick_halves(get, array, *indices) if array.dtype in HALF else get(array, *indices)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _pick_halves(get: Function, array: Any, *indices: Any) -> Any:
    return get(array, *indices)


@_pick_halves.defjvp
def _push_halves(get: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    indices = primals[1:]
    return get(*primals), in_single(lambda wide: get(wide, *indices))(tangents[0])


def strong(value: Any, like: Any) -> Any:
    """Returns a Python number, or an array, as an array of another array's dtype."""
    return jnp.asarray(value, like.dtype)


def convert_number(value: complex, dtype: Any) -> np.ndarray[Any, Any]:
    """Returns a Python number as it is stored in a dtype; a real dtype takes its real part."""
    if isinstance(value, complex) and dtype not in COMPLEX and dtype != dtypes.bool:
        value = value.real
    return np.asarray(value).astype(dtype)


def sum_like(grads: Sequence[Any], inputs: Sequence[Any]) -> Values:
    """Sums each gradient over the axes along which its input was broadcast; None stays None."""
    pairs = zip(grads, inputs, strict=True)
    return tuple(None if grad is None else sum_to(grad, value.shape) for grad, value in pairs)
