"""Windows: weights by which a segment of a signal ends smoothly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.errors import ArgumentError
from oplib.tensor import get_default_dtype
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


def spread_numbers(
    function: Callable[..., Any], numbers: Mapping[str, tuple[Any, str]]
) -> Callable[..., Any]:
    """Returns a function with a parameter for each number, in place of ``numbers``, a dict.

    Args:
        function: has the parameter ``numbers``.
        numbers: by their names the default and the meaning of each.
    """
    signature = inspect.signature(function)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name != "numbers":
            parameters.append(parameter)
            continue
        parameters += [parameter.replace(name=name, default=one[0]) for name, one in numbers.items()]
    signature = signature.replace(parameters=parameters)

    def spread(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        chosen = {name: bound.arguments.pop(name) for name in numbers}
        return function(**bound.arguments, numbers=chosen)

    spread.__signature__ = signature
    spread.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": "Any"}
    return spread


def compute_window(name: str, fill: Fill, count: int, sym: bool, numbers: Mapping[str, Any]) -> list[float]:
    """Computes a window. ``fill`` takes positions, the distance of the ends, and the numbers."""
    require_memory(name, (count,), np.dtype(np.float64))
    if count > 1:
        return fill(np.arange(count, dtype=np.float64), float(count - sym), **numbers).tolist()
    with np.errstate(all="ignore"):
        items = fill(np.zeros(1), float(not sym), **numbers)  # the numbers are checked
    has_center = numbers.get("center") is not None  # it need not be that of the window
    return (items[:count] if has_center else np.ones(count)).tolist()


def sum_cosines(positions: _Array, span: float, a: Sequence[float]) -> _Array:
    """Computes a sum of cosines; every other one is subtracted."""
    terms = [(-1) ** k * factor * np.cos(2 * np.pi * k * positions / span) for k, factor in enumerate(a)]
    return np.sum(terms, axis=0)


def fix_cosines(*a: float) -> Fill:
    """Returns the function that sums cosines with these factors."""
    return lambda positions, span: sum_cosines(positions, span, a)


def fill_triangle(positions: _Array, span: float) -> _Array:
    """Computes a triangle."""
    return 1 - np.abs(2 * positions / span - 1)


def fill_kaiser(positions: _Array, span: float, beta: float) -> _Array:
    """Computes a window of Bessel functions."""
    return np.i0(beta * np.sqrt(np.maximum(1 - (2 * positions / span - 1) ** 2, 0))) / np.i0(beta)


fill_blackman, fill_hann = fix_cosines(0.42, 0.5, 0.08), fix_cosines(0.5, 0.5)


def _make_window(name: str, what: str, shown: str, fill: Fill, **further: tuple[float, str]) -> Composed:
    """Makes the record of a window.

    Args:
        name: of the function.
        what: it makes.
        shown: the result of its example.
        fill: computes the items.
        **further: the default and the meaning of each further argument.
    """

    def window(
        window_length: int,
        periodic: bool = True,
        numbers: float = 0.0,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Any:
        kind = get_default_dtype() if dtype is None else np.dtype(dtype)
        if window_length < 0 or kind not in FLOATING:
            raise ArgumentError(
                f"{name}: requires non-negative window_length, and expects floating point dtypes. Got "
                f"{window_length} and {kind}. Give the length of the window."
            )
        items = compute_window(name, fill, window_length, not periodic, numbers)  # pyright: ignore[reportArgumentType]  a dict by now
        return tensor(items, dtype=kind, device=device, requires_grad=requires_grad)

    made = spread_numbers(window, further)
    told = "".join(f"\n    {number}: {words}" for number, (_, words) in further.items())
    made.__name__, made.__doc__ = name, _DOC.format(name=name, what=what, shown=shown, numbers=told)
    return Composed(made, makes=True)


COMPOSED = (
    _make_window("bartlett_window", "a Bartlett window, a triangle", "[0.0, 1.0, 0.0]", fill_triangle),
    _make_window(
        "blackman_window",
        "a Blackman window, a sum of two cosines",
        "[-1.38...e-17, 1.0, -1.38...e-17]",
        fill_blackman,
    ),
    _make_window("hann_window", "a Hann window, a raised cosine", "[0.0, 1.0, 0.0]", fill_hann),
    _make_window(
        "hamming_window",
        "a Hamming window, a raised cosine",
        "[0.0799..., 1.0, 0.0799...]",
        lambda positions, span, alpha, beta: sum_cosines(positions, span, (alpha, beta)),
        alpha=(0.54, "the constant term."),
        beta=(0.46, "the amplitude of the cosine."),
    ),
    _make_window(
        "kaiser_window",
        "a Kaiser window, which uses Bessel functions",
        "[5.27...e-05, 1.0, 5.27...e-05]",
        fill_kaiser,
        beta=(12.0, "the shape parameter; a larger one makes the window narrower."),
    ),
)
