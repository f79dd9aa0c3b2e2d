"""Windows of signals, by which what is cut out of one ends smoothly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.errors import ArgumentError
from oplib.tensor import Tensor, get_default_dtype
from oplib.tensor.dtypes.rules import FLOATING
from oplib.tensor.factories.from_data import tensor

Function = Callable[..., Any]
_Array = np.ndarray[Any, Any]
Fill = Callable[[_Array], _Array]

_DOC = """Makes {what}.

Args:
    window_length: how many items it has.
    periodic: whether it is one period, of which the first item would come next; else symmetric.{numbers}
    dtype: floating; by default the default dtype.
    device: where the result is to be.
    requires_grad: whether gradients are wanted.

Returns:
    A vector.

Raises:
    ArgumentError: a negative length, or a dtype that is not floating.

Gradient:
    None: there is nothing to differentiate by.

Source:
    torch.{name}

Example:
    >>> import oplib
    >>> oplib.{name}(3, False).tolist()
    {shown}
"""


def _describe(function: Function, name: str, what: str, shown: str, numbers: str = "") -> Function:
    """Gives a window its name and docstring; ``numbers`` describes the arguments that others do not have."""
    function.__name__ = name
    function.__doc__ = _DOC.format(name=name, what=what, shown=shown, numbers=numbers)
    return function


def _make_window(name: str, what: str, shown: str, fill: Fill) -> Function:
    """Makes a window without arguments of its own."""

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
    """Makes a window of the formula that gives its items for places from 0 to 1."""
    found = get_default_dtype() if dtype is None else np.dtype(dtype)
    if length < 0 or found not in FLOATING:
        raise ArgumentError(
            f"{name}: requires non-negative window_length, and expects floating point dtypes. Got "
            f"{length} and {found}. Give the length of the window."
        )
    last = length if periodic else length - 1
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
            "the window of Bartlett, a triangle",
            "[0.0, 1.0, 0.0]",
            lambda place: 1 - np.abs(2 * place - 1),
        ),
        makes=True,
    ),
    Composed(
        _make_window(
            "blackman_window",
            "the window of Blackman, of two cosines",
            "[-1.38...e-17, 1.0, -1.38...e-17]",
            partial(_sum_cosines, factors=(0.42, -0.5, 0.08)),
        ),
        makes=True,
    ),
    Composed(
        _make_window(
            "hann_window",
            "the window of von Hann, a raised cosine",
            "[0.0, 1.0, 0.0]",
            partial(_sum_cosines, factors=(0.5, -0.5)),
        ),
        makes=True,
    ),
    Composed(
        _describe(
            _hamming_window,
            "hamming_window",
            "the window of Hamming, a cosine that is raised a little more",
            "[0.0799..., 1.0, 0.0799...]",
            "\n    alpha: what is added.\n    beta: the size of the cosine.",
        ),
        makes=True,
    ),
    Composed(
        _describe(
            _kaiser_window,
            "kaiser_window",
            "the window of Kaiser, of Bessel functions",
            "[5.27...e-05, 1.0, 5.27...e-05]",
            "\n    beta: how narrow it is.",
        ),
        makes=True,
    ),
)
