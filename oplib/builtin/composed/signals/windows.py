"""Windows: weights by which a segment of a signal ends smoothly."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.errors import ArgumentError
from oplib.tensor import Tensor, get_default_dtype
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.dtypes.rules import FLOATING
from oplib.tensor.factories.from_data import tensor

_Array = np.ndarray[Any, Any]
Fill = Callable[..., _Array]

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


def _make_window(name: str, what: str, shown: str, fill: Fill, *numbers: tuple[str, float, str]) -> Composed:
    """Makes the record of a window from its name, description and example.

    Args:
        name: of the function.
        what: it makes.
        shown: the result of its example.
        fill: computes the items from positions from 0 to 1, and from the numbers.
        *numbers: the name, default and meaning of each further argument.
    """

    def model(
        window_length: int,
        periodic: bool = True,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Any: ...

    def window(window_length: int, periodic: bool, *factors: float, **options: Any) -> Any:
        return _compute(name, lambda items: fill(items, *factors), window_length, periodic, **options)

    signature = inspect.signature(model)
    kind = Parameter.POSITIONAL_OR_KEYWORD
    further = [Parameter(number, kind, default=default, annotation="float") for number, default, _ in numbers]
    length, periodic, *options = signature.parameters.values()
    parameters = [length, periodic, *further, *options]
    window.__signature__ = signature.replace(parameters=parameters)
    window.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {
        "return": "Any"
    }
    told = "".join(f"\n    {number}: {words}" for number, _, words in numbers)
    window.__name__, window.__doc__ = name, _DOC.format(name=name, what=what, shown=shown, numbers=told)
    return Composed(window, makes=True)


def _compute(name: str, fill: Fill, length: int, periodic: bool, *, dtype: Any, **options: Any) -> Tensor:
    """Computes a window from the formula of its items for positions from 0 to 1."""
    kind = get_default_dtype() if dtype is None else np.dtype(dtype)
    if length < 0 or kind not in FLOATING:
        raise ArgumentError(
            f"{name}: requires non-negative window_length, and expects floating point dtypes. Got "
            f"{length} and {kind}. Give the length of the window."
        )
    last = length if periodic else length - 1
    require_memory(name, (length,), np.dtype(np.float64))
    items = np.ones(length) if length < 2 else fill(np.arange(length) / last)
    return tensor(items.tolist(), dtype=kind, **options)


def _sum_cosines(positions: _Array, *factors: float) -> _Array:
    terms = (factor * np.cos(2 * np.pi * k * positions) for k, factor in enumerate(factors))
    return sum(terms, np.zeros(positions.size))


def _find_kaiser(positions: _Array, beta: float) -> _Array:
    return np.i0(beta * np.sqrt(np.maximum(1 - (2 * positions - 1) ** 2, 0))) / np.i0(beta)


COMPOSED = (
    _make_window(
        "bartlett_window",
        "a Bartlett window, a triangle",
        "[0.0, 1.0, 0.0]",
        lambda positions: 1 - np.abs(2 * positions - 1),
    ),
    _make_window(
        "blackman_window",
        "a Blackman window, a sum of two cosines",
        "[-1.38...e-17, 1.0, -1.38...e-17]",
        lambda positions: _sum_cosines(positions, 0.42, -0.5, 0.08),
    ),
    _make_window(
        "hann_window",
        "a Hann window, a raised cosine",
        "[0.0, 1.0, 0.0]",
        lambda positions: _sum_cosines(positions, 0.5, -0.5),
    ),
    _make_window(
        "hamming_window",
        "a Hamming window, a raised cosine",
        "[0.0799..., 1.0, 0.0799...]",
        lambda positions, alpha, beta: _sum_cosines(positions, alpha, -beta),
        ("alpha", 0.54, "the constant term."),
        ("beta", 0.46, "the amplitude of the cosine."),
    ),
    _make_window(
        "kaiser_window",
        "a Kaiser window, which uses Bessel functions",
        "[5.27...e-05, 1.0, 5.27...e-05]",
        _find_kaiser,
        ("beta", 12.0, "the shape parameter; a larger one makes the window narrower."),
    ),
)
