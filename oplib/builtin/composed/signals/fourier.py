"""The frequencies of Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.errors import ArgumentError
from oplib.tensor import get_default_dtype
from oplib.tensor.factories.from_data import tensor

Function = Callable[..., Any]


def _make_frequencies(name: str, shown: Sequence[float], some: str = "") -> Function:
    """Makes the function of one order. ``numpy.fft`` is imported when it is called."""

    def frequencies(
        n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        if n < 1 or not d:
            raise ArgumentError(
                f"fft.{name}: the length must be positive, and the distance not 0. Got n={n} and d={d}. "
                "Pass those of the signal."
            )
        found = get_default_dtype() if dtype is None else dtype
        values = tensor(getattr(np.fft, name)(n, d).tolist(), dtype=found, device=device)
        return values.requires_grad_(requires_grad)

    frequencies.__name__ = f"fft_{name}"
    frequencies.__doc__ = _FREQUENCIES.format(name=name, some=some, shown=shown)
    return frequencies


_FREQUENCIES = """Returns the frequencies of a transform{some}, in its order.

Args:
    n: the number of items of the signal.
    d: the distance between items.
    dtype: a floating dtype; by default the default dtype.
    device: the device of the result.
    requires_grad: whether the result requires grad.

Returns:
    A vector.

Raises:
    ArgumentError: the signal has no items, or the distance is 0.

Gradient:
    None: no argument is differentiable.

Example:
    >>> oplib.fft.{name}(4).tolist()
    {shown}
"""

COMPOSED = (
    Composed(_make_frequencies("fftfreq", [0.0, 0.25, -0.5, -0.25]), makes=True),
    Composed(_make_frequencies("rfftfreq", [0.0, 0.25, 0.5], ", except the negative ones"), makes=True),
)
