"""Functions of ops with several overloads: which one a call means.

The common cases are told by the class of one operand, since these functions stand on the hot path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from oplib.library import OpOverload
from oplib.tensor import Tensor
from oplib.tensor.ingestion import to_array

Function = Callable[..., Any]
_NUMBERS = (bool, int, float, complex)


def take_operand(value: Any) -> Any:
    """Returns numpy's numbers as Python's, as torch counts them, and numpy's arrays as JAX's, checked."""
    if isinstance(value, np.generic):
        return value.item()
    return to_array(value, None, None) if isinstance(value, np.ndarray) else value


def choose_by_other(on_tensor: OpOverload, on_number: OpOverload) -> Function:
    """Makes ``f(input, other)``, where ``other`` may be a number."""

    def function(input: Any, other: Any) -> Any:  # noqa: A002  torch's name
        kind = other.__class__
        if kind is Tensor:
            return on_tensor.call(input, other)
        if kind is float or kind is int:
            return on_number.call(input, other)
        other = take_operand(other)
        return (on_number if isinstance(other, _NUMBERS) else on_tensor).call(input, other)

    return function


def choose_scaled(on_tensor: OpOverload, on_number: OpOverload, scaled: OpOverload) -> Function:
    """Makes ``f(input, other, *, alpha=1)`` of ``add`` and ``sub``."""
    plain = choose_by_other(on_tensor, on_number)

    def function(input: Any, other: Any, *, alpha: Any = 1) -> Any:  # noqa: A002  torch's name
        kind = other.__class__
        if alpha.__class__ is int and alpha == 1:
            if kind is Tensor:
                return on_tensor.call(input, other)
            if kind is float or kind is int:
                return on_number.call(input, other)
            return plain(input, other)
        other, alpha = take_operand(other), take_operand(alpha)
        if isinstance(other, _NUMBERS):
            return on_number.call(input, other * alpha)
        return scaled.call(input, other, alpha=alpha)

    return function


def choose_reversed(on_tensor: Function, on_number: OpOverload) -> Function:
    """Makes ``f(input, other)`` which computes ``other op input``."""

    def function(input: Any, other: Any) -> Any:  # noqa: A002  torch's name
        other = take_operand(other)
        return on_number.call(input, other) if isinstance(other, _NUMBERS) else on_tensor(other, input)

    return function
