"""Windows of signals, by which what is cut out of one ends smoothly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oplib.errors import ArgumentError, ArgumentTypeError
from oplib.tensor import get_default_dtype
from oplib.tensor.dtype_rules import FLOATING
from oplib.tensor.factories import tensor

Function = Callable[..., Any]
Functions = Mapping[str, Function]
_Array = np.ndarray[Any, Any]

_DOC = """Makes {what}.

Args:
    window_length: how many items it has.
    periodic: whether it is one period, of which the first item would come next; else it is symmetric.{more}
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
    >>> oplib.{name}(3, False){given}
    {shown}
"""


def _make(name: str, parameters: tuple[str, ...], defaults: tuple[float, ...], fill: Function) -> Any:
    what, more, shown = _TEXTS[name]

    def make(functions: Functions) -> Function:  # noqa: ARG001  all makers take them
        def window(
            window_length: int,
            periodic: bool = True,
            *numbers: float,
            dtype: Any = None,
            device: Any = None,
            requires_grad: bool = False,
            **named: float,
        ) -> Any:
            values = _read_numbers(name, parameters, defaults, numbers, named)
            found = get_default_dtype() if dtype is None else np.dtype(dtype)
            if window_length < 0 or found not in FLOATING:
                raise ArgumentError(
                    f"{name}: requires non-negative window_length, and expects floating point dtypes. Got "
                    f"{window_length} and {found}. Give the length of the window."
                )
            items = _compute(fill, window_length, periodic, values)
            return tensor(items.tolist(), dtype=found, device=device, requires_grad=requires_grad)

        window.__doc__ = _DOC.format(what=what, more=more, name=name, given=".tolist()", shown=shown)
        return window

    return make


def _read_numbers(
    name: str,
    parameters: tuple[str, ...],
    defaults: tuple[float, ...],
    numbers: tuple[float, ...],
    named: Mapping[str, float],
) -> list[float]:
    if len(numbers) > len(parameters) or not set(named) <= set(parameters[len(numbers) :]):
        raise ArgumentTypeError(
            f"{name}: received an invalid combination of arguments. Got {list(numbers)} and {dict(named)}. "
            f"Its numbers are {', '.join(parameters) or 'none'}."
        )
    values = dict(zip(parameters, defaults, strict=True))
    return list((values | dict(zip(parameters, numbers, strict=False)) | dict(named)).values())


def _compute(fill: Function, length: int, periodic: bool, values: list[float]) -> _Array:
    if length < 2:
        return np.ones(length)
    last = length if periodic else length - 1
    return fill(np.arange(length) / last, *values)


def _cosines(place: _Array, *factors: float) -> _Array:
    return sum(
        (factor * np.cos(2 * np.pi * k * place) for k, factor in enumerate(factors)), np.zeros(place.size)
    )


def _kaiser(place: _Array, beta: float) -> _Array:
    return np.i0(beta * np.sqrt(np.maximum(1 - (2 * place - 1) ** 2, 0))) / np.i0(beta)


_TEXTS = {
    "hann_window": ("the window of von Hann, a raised cosine", "", "[0.0, 1.0, 0.0]"),
    "hamming_window": (
        "the window of Hamming, a cosine that is raised a little more",
        "\n    alpha: what is added, 0.54.\n    beta: the size of the cosine, 0.46.",
        "[0.0799..., 1.0, 0.0799...]",
    ),
    "blackman_window": ("the window of Blackman, of two cosines", "", "[-1.38...e-17, 1.0, -1.38...e-17]"),
    "bartlett_window": ("the window of Bartlett, a triangle", "", "[0.0, 1.0, 0.0]"),
    "kaiser_window": (
        "the window of Kaiser, of Bessel functions",
        "\n    beta: how narrow it is, 12.",
        "[5.27...e-05, 1.0, 5.27...e-05]",
    ),
}
WINDOWS: dict[str, Callable[[Functions], Function]] = {
    "bartlett_window": _make("bartlett_window", (), (), lambda place: 1 - np.abs(2 * place - 1)),
    "blackman_window": _make("blackman_window", (), (), lambda place: _cosines(place, 0.42, -0.5, 0.08)),
    "hamming_window": _make(
        "hamming_window", ("alpha", "beta"), (0.54, 0.46), lambda place, a, b: _cosines(place, a, -b)
    ),
    "hann_window": _make("hann_window", (), (), lambda place: _cosines(place, 0.5, -0.5)),
    "kaiser_window": _make("kaiser_window", ("beta",), (12.0,), _kaiser),
}
