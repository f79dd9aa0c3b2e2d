"""torch's rules of type promotion, as pure functions on dtypes.

Operands have three ranks: tensors with dimensions, tensors without, and Python numbers. A lower rank changes
the dtype of a higher one only if its kind is higher: bool < integer < floating < complex. There are two
differences to torch. Without x64 a Python integer counts as int32, where torch has int64. complex64 replaces
torch's complex32, which JAX does not have.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from oplib.errors import DtypeError

from . import names as dtypes
from .rules import COMPLEX, FLOAT8, FLOATING, INTEGRAL, SIGNED, find_dtype, scalar_dtype

Dtype: TypeAlias = "np.dtype[Any]"

_WIDE = frozenset({dtypes.float64, dtypes.complex128})
_UNPROMOTED = FLOAT8 | {dtypes.uint16, dtypes.uint32, dtypes.uint64}


def promote_types(type1: Any, type2: Any) -> Dtype:
    """Returns the smallest dtype to which both can be converted, as ``torch.promote_types`` does.

    Args:
        type1: a dtype.
        type2: a dtype.

    Raises:
        DtypeError: torch has no promotion for the two: float8 with any other dtype, uint16, uint32 and uint64
            with another integral dtype.

    Example:
        >>> promote_types("uint8", "int8")
        dtype('int16')
    """
    return _promote(find_dtype(type1), find_dtype(type2))


@lru_cache(maxsize=1024)
def _promote(first: Dtype, second: Dtype) -> Dtype:
    if first == second:
        return first
    _refuse_unpromoted(first, second)
    pair = {first, second}
    if pair & COMPLEX:
        return dtypes.complex128 if pair & _WIDE else dtypes.complex64
    if pair & FLOATING:
        return _promote_floating(pair & FLOATING)
    if dtypes.bool in pair:
        return first if second == dtypes.bool else second
    if pair == {dtypes.uint8, dtypes.int8}:
        return dtypes.int16
    return max(pair & SIGNED, key=lambda dtype: dtype.itemsize)


def _promote_floating(floating: frozenset[Dtype] | set[Dtype]) -> Dtype:
    """float16 and bfloat16 promote to float32, because neither holds the other."""
    if floating == {dtypes.float16, dtypes.bfloat16}:
        return dtypes.float32
    return max(floating, key=lambda dtype: dtype.itemsize)


def _refuse_unpromoted(first: Dtype, second: Dtype) -> None:
    for mine, other in ((first, second), (second, first)):
        if mine in FLOAT8 or (mine in _UNPROMOTED and other not in FLOATING):
            raise DtypeError(
                f"promotion: there is no common dtype. Got {first.name} and {second.name}. "
                f"Convert one of them first: tensor.to(dtype)."
            )


@lru_cache(maxsize=4096)
def result_dtype(
    dimensioned: tuple[Dtype, ...], zero_dim: tuple[Dtype, ...] = (), numbers: tuple[Dtype, ...] = ()
) -> Dtype:
    """Returns the dtype of a result from the dtypes of its operands by rank.

    Args:
        dimensioned: dtypes of operands with at least one dimension.
        zero_dim: dtypes of tensors and arrays without dimensions.
        numbers: dtypes of Python numbers, see :func:`oplib.tensor.dtypes.rules.scalar_dtype`.

    Raises:
        DtypeError: there is no operand, or torch has no promotion for two of them.

    Example:
        >>> result_dtype((dtypes.int8,), (), (dtypes.float32,))
        dtype('float32')
        >>> result_dtype((dtypes.bfloat16,), (dtypes.float32,))
        dtype(bfloat16)
    """
    promoted = _outrank(_promote_all(dimensioned), _outrank(_promote_all(zero_dim), _promote_all(numbers)))
    if promoted is None:
        raise DtypeError("promotion: there is nothing to promote. Got no operand. Give at least one.")
    return promoted


def _promote_all(dtypes: tuple[Dtype, ...]) -> Dtype | None:
    promoted: Dtype | None = None
    for dtype in dtypes:
        promoted = dtype if promoted is None else _promote(promoted, dtype)
    return promoted


def _outrank(higher: Dtype | None, lower: Dtype | None) -> Dtype | None:
    """Returns the result of ``higher`` with operands of a lower rank."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher in COMPLEX:
        return higher
    if higher in FLOATING | FLOAT8:
        return _outrank_complex(higher) if lower in COMPLEX else higher
    if lower in COMPLEX:
        return lower
    return _promote(higher, lower) if higher == dtypes.bool or lower in FLOATING | FLOAT8 else higher


def _outrank_complex(floating: Dtype) -> Dtype:
    """Returns the complex dtype with the precision of the operand of higher rank."""
    _refuse_unpromoted(floating, dtypes.complex64)
    return dtypes.complex128 if floating == dtypes.float64 else dtypes.complex64


def result_type(*operands: Any) -> Dtype:
    """Returns the dtype of an arithmetic result of these operands, as ``torch.result_type`` does.

    Args:
        *operands: Tensors, arrays, tracers and numbers. numpy's scalars count as Python numbers.

    Raises:
        DtypeError: an operand has another type, or torch has no promotion for them.

    Example:
        >>> import numpy as np
        >>> result_type(np.ones(3, np.int8), 2.5)
        dtype('float32')
    """
    ranks: tuple[list[Dtype], list[Dtype], list[Dtype]] = ([], [], [])
    for operand in operands:
        if isinstance(operand, (bool, int, float, complex)):
            ranks[2].append(scalar_dtype(type(operand)))
        elif isinstance(operand, np.generic):
            ranks[2].append(scalar_dtype(type(operand.item())))
        else:
            ranks[0 if _ndim(operand) else 1].append(operand.dtype)
    return result_dtype(*map(tuple, ranks))


def _ndim(operand: Any) -> int:
    if hasattr(operand, "ndim") and hasattr(operand, "dtype"):
        return operand.ndim
    raise DtypeError(
        f"promotion: this operand has no dtype. Got {type(operand).__name__}. Give tensors or numbers."
    )


def can_cast(from_: Any, to: Any) -> bool:
    """Returns whether a result may be stored in place as another dtype, as ``torch.can_cast`` does.

    Args:
        from_: the dtype of the result.
        to: the dtype of the written tensor.

    Example:
        >>> can_cast("float32", "int32"), can_cast("float32", "float16")
        (False, True)
    """
    source, target = find_dtype(from_), find_dtype(to)
    if source in COMPLEX:
        return target in COMPLEX
    if source in FLOATING | FLOAT8:
        return target not in INTEGRAL | {dtypes.bool}
    return target != dtypes.bool or source == dtypes.bool
