"""Windows: weights by which a segment of a signal ends smoothly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.errors import ArgumentError
from oplib.tensor import Tensor, get_default_dtype
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.dtypes.rules import FLOATING
from oplib.tensor.factories.from_data import tensor

Function = Callable[..., Any]
_Array = np.ndarray[Any, Any]
Fill = Callable[[_Array], _Array]

_DOC = """Makes {what}.

Args:
    window_length: the number of items.
    periodic: True for one period of a periodic window, False for a symmetric window.{numbers}
    dtype: a floating dtype; by default the default dtype.
    device: the device of the result.
    requires_grad: whether the result requires grad.

Returns:
    A vector.

Raises:
    ArgumentError: a negative length, or a dtype that is not floating.

Gradient:
    None: no argument is differentiable.

Example:
    >>> oplib.{name}(3, False).tolist()
    {shown}
"""


def _describe(function: Function, name: str, what: str, shown: str, numbers: str = "") -> Function:
    """Sets the name and docstring of a window; ``numbers`` describes its further arguments."""
    function.__name__ = name
    function.__doc__ = _DOC.format(name=name, what=what, shown=shown, numbers=numbers)
    return function


def _make_window(name: str, what: str, shown: str, fill: Fill) -> Function:
    """Makes the function of a window without further arguments."""

    def window(
        window_length: int,
        periodic: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Any:
        place = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
        return _compute(name, fill, window_length, periodic, **place)

    return _describe(window, name, what, shown)


def _hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    place = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    fill = partial(_sum_cosines, factors=(alpha, -beta))
    return _compute("hamming_window", fill, window_length, periodic, **place)


def _kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    place = {"dtype": dtype, "device": device, "requires_grad": requires_grad}
    fill = partial(_find_kaiser, beta=beta)
    return _compute("kaiser_window", fill, window_length, periodic, **place)


def _compute(name: str, fill: Fill, length: int, periodic: bool, *, dtype: Any, **place: Any) -> Tensor:
    """Computes a window from the formula of its items for positions from 0 to 1."""
    found = get_default_dtype() if dtype is None else np.dtype(dtype)
    if length < 0 or found not in FLOATING:
        raise ArgumentError(
            f"{name}: requires non-negative window_length, and expects floating point dtypes. Got "
            f"{length} and {found}. Give the length of the window."
        )
    last = length if periodic else length - 1
    require_memory(name, (length,), np.dtype(np.float64))
    items = np.ones(length) if length < 2 else fill(np.arange(length) / last)
    return tensor(items.tolist(), dtype=found, **place)


def _sum_cosines(place: _Array, factors: Sequence[float]) -> _Array:
    return sum(
        (factor * np.cos(2 * np.pi * k * place) for k, factor in enumerate(factors)), np.zeros(place.size)
    )


def _find_kaiser(place: _Array, beta: float) -> _Array:
    return np.i0(beta * np.sqrt(np.maximum(1 - (2 * place - 1) ** 2, 0))) / np.i0(beta)


COMPOSED = (
    Composed(
        _make_window(
            "bartlett_window",
            "a Bartlett window, a triangle",
            "[0.0, 1.0, 0.0]",
            lambda place: 1 - np.abs(2 * place - 1),
        ),
        makes=True,
    ),
    Composed(
        _make_window(
            "blackman_window",
            "a Blackman window, a sum of two cosines",
            "[-1.38...e-17, 1.0, -1.38...e-17]",
            partial(_sum_cosines, factors=(0.42, -0.5, 0.08)),
        ),
        makes=True,
    ),
    Composed(
        _make_window(
            "hann_window",
            "a Hann window, a raised cosine",
            "[0.0, 1.0, 0.0]",
            partial(_sum_cosines, factors=(0.5, -0.5)),
        ),
        makes=True,
    ),
    Composed(
        _describe(
            _hamming_window,
            "hamming_window",
            "a Hamming window, a raised cosine",
            "[0.0799..., 1.0, 0.0799...]",
            "\n    alpha: the constant term.\n    beta: the amplitude of the cosine.",
        ),
        makes=True,
    ),
    Composed(
        _describe(
            _kaiser_window,
            "kaiser_window",
            "a Kaiser window, which uses Bessel functions",
            "[5.27...e-05, 1.0, 5.27...e-05]",
            "\n    beta: the shape parameter; a larger one makes the window narrower.",
        ),
        makes=True,
    ),
)
