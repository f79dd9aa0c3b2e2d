"""Python's operators on Tensors.

An operand of another type is left to the other side, so that Python asks it.

As in torch, a comparison with an object that is not a number, such as None, then compares identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import jax
import numpy as np

from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.tensor.shapes.symbolic import SymbolicSize
from oplib.tensor.storage.tensor_slots import TensorT
from oplib.tensor.upcalls import upcalls
from oplib.tracebacks import refine_error

if TYPE_CHECKING:
    from oplib.tensor.storage.storage import Storage


Function = TypeVar("Function", bound=Callable[..., Any])


def leave(other: object) -> Any:
    """Returns ``NotImplemented``, so that Python asks the other operand.

    Raises:
        ArgumentTypeError: it is a tensor of torch. It would return ``NotImplemented`` too, and Python's error
            would not say why.
    """
    kind = type(other)
    if any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in kind.__mro__):
        raise ArgumentTypeError(
            f"an operator of a Tensor does not take a tensor of torch. Got {describe(other)}, of type "
            f"{kind.__module__}.{kind.__name__}. Convert it: oplib.tensor(t)."
        )
    return NotImplemented


def _for_operands(method: Function) -> Function:
    """Leaves operands of other types to the other side."""

    @wraps(method)
    def operator(self: Any, other: Any) -> Any:
        return method(self, other) if isinstance(other, OPERANDS) else leave(other)

    return cast("Function", operator)


class TensorOperators(Generic[TensorT]):
    """Mixin with the operators, indexing and iteration."""

    _storage: Storage

    if TYPE_CHECKING:

        def __len__(self) -> int: ...

    @_for_operands
    def __add__(self, other: Any) -> TensorT:
        return upcalls.add(self, other)

    __radd__ = __add__

    @_for_operands
    def __sub__(self, other: Any) -> TensorT:
        return upcalls.sub(self, other)

    @_for_operands
    def __rsub__(self, other: Any) -> TensorT:
        return upcalls.rsub(self, other)

    @_for_operands
    def __mul__(self, other: Any) -> TensorT:
        return upcalls.mul(self, other)

    __rmul__ = __mul__

    @_for_operands
    def __truediv__(self, other: Any) -> TensorT:
        return upcalls.div(self, other)

    @_for_operands
    def __rtruediv__(self, other: Any) -> TensorT:
        return upcalls.rdiv(self, other)

    @_for_operands
    def __pow__(self, other: Any) -> TensorT:
        return upcalls.pow(self, other)

    @_for_operands
    def __rpow__(self, other: Any) -> TensorT:
        return upcalls.rpow(self, other)

    @_for_operands
    def __matmul__(self, other: Any) -> TensorT:
        return upcalls.matmul(self, other)

    @_for_operands
    def __rmatmul__(self, other: Any) -> TensorT:
        return upcalls.matmul(other, self)

    def __neg__(self) -> TensorT:
        return upcalls.neg(self)

    @_for_operands
    def __floordiv__(self, other: Any) -> TensorT:
        return upcalls.floor_divide(self, other)

    @_for_operands
    def __rfloordiv__(self, other: Any) -> TensorT:
        return upcalls.floor_divide(other, self)

    @_for_operands
    def __mod__(self, other: Any) -> TensorT:
        return upcalls.remainder(self, other)

    @_for_operands
    def __rmod__(self, other: Any) -> TensorT:
        return upcalls.remainder(other, self)

    @_for_operands
    def __and__(self, other: Any) -> TensorT:
        return upcalls.bitwise_and(self, other)

    __rand__ = __and__

    @_for_operands
    def __or__(self, other: Any) -> TensorT:
        return upcalls.bitwise_or(self, other)

    __ror__ = __or__

    @_for_operands
    def __xor__(self, other: Any) -> TensorT:
        return upcalls.bitwise_xor(self, other)

    __rxor__ = __xor__

    @_for_operands
    def __lshift__(self, other: Any) -> TensorT:
        return upcalls.bitwise_left_shift(self, other)

    @_for_operands
    def __rlshift__(self, other: Any) -> TensorT:
        return upcalls.bitwise_left_shift(other, self)

    @_for_operands
    def __rshift__(self, other: Any) -> TensorT:
        return upcalls.bitwise_right_shift(self, other)

    @_for_operands
    def __rrshift__(self, other: Any) -> TensorT:
        return upcalls.bitwise_right_shift(other, self)

    def __invert__(self) -> TensorT:
        return upcalls.bitwise_not(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> TensorT:
        return upcalls.abs(self)

    def __round__(self, ndigits: Any = None) -> TensorT:
        return upcalls.round(self) if ndigits is None else upcalls.round(self, decimals=ndigits)

    @_for_operands
    def __iadd__(self, other: Any) -> TensorT:
        return upcalls.add_(self, other)

    @_for_operands
    def __isub__(self, other: Any) -> TensorT:
        return upcalls.sub_(self, other)

    @_for_operands
    def __imul__(self, other: Any) -> TensorT:
        return upcalls.mul_(self, other)

    @_for_operands
    def __itruediv__(self, other: Any) -> TensorT:
        return upcalls.div_(self, other)

    @_for_operands
    def __ipow__(self, other: Any) -> TensorT:
        return upcalls.pow_(self, other)

    @_for_operands
    def __ifloordiv__(self, other: Any) -> TensorT:
        return upcalls.floor_divide_(self, other)

    @_for_operands
    def __imod__(self, other: Any) -> TensorT:
        return upcalls.remainder_(self, other)

    @_for_operands
    def __iand__(self, other: Any) -> TensorT:
        return upcalls.bitwise_and_(self, other)

    @_for_operands
    def __ior__(self, other: Any) -> TensorT:
        return upcalls.bitwise_or_(self, other)

    @_for_operands
    def __ixor__(self, other: Any) -> TensorT:
        return upcalls.bitwise_xor_(self, other)

    @_for_operands
    def __ilshift__(self, other: Any) -> TensorT:
        return upcalls.bitwise_left_shift_(self, other)

    @_for_operands
    def __irshift__(self, other: Any) -> TensorT:
        return upcalls.bitwise_right_shift_(self, other)

    @_for_operands
    def __eq__(self, other: object) -> Any:
        return upcalls.eq(self, other)

    @_for_operands
    def __ne__(self, other: object) -> Any:
        return upcalls.ne(self, other)

    __hash__ = object.__hash__  # by identity, as keys of dictionaries and sets need

    @_for_operands
    def __lt__(self, other: Any) -> TensorT:
        return upcalls.lt(self, other)

    @_for_operands
    def __le__(self, other: Any) -> TensorT:
        return upcalls.le(self, other)

    @_for_operands
    def __gt__(self, other: Any) -> TensorT:
        return upcalls.gt(self, other)

    @_for_operands
    def __ge__(self, other: Any) -> TensorT:
        return upcalls.ge(self, other)

    def __getitem__(self, index: Any) -> TensorT:
        try:
            return upcalls.getitem(self, index)
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise

    def __setitem__(self, index: Any, value: Any) -> None:
        try:
            upcalls.setitem_(self, index, value)
        except Exception as error:
            if better := refine_error(error):
                raise better from error
            raise

    def __delitem__(self, index: Any) -> None:
        raise ArgumentTypeError(
            f"Tensor: it does not support deleting items. Got index {describe(index)}. Select the others: "
            "oplib.cat([x[:i], x[i + 1:]]), or x[mask]."
        )

    def __iter__(self) -> Iterator[TensorT]:
        if not self._storage.array.ndim:
            raise ArgumentTypeError(
                "iteration over a 0-d tensor. Got shape (). Use tensor.item() for its value."
            )
        return (upcalls.getitem(self, position) for position in range(len(self)))

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, OPERANDS):
            raise ArgumentError(
                f"Tensor.__contains__ only supports Tensor or scalar. Got {describe(element)}. "
                f"Look for a number."
            )
        is_equal = upcalls.eq(self, element)
        return bool(np.asarray(is_equal).any())


OPERANDS = (TensorOperators, int, float, complex, jax.Array, np.ndarray, np.generic, SymbolicSize)
