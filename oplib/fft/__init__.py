"""Fourier transforms under torch's names: ``oplib.fft.rfft(x)`` is the op ``fft_rfft``.

Example:
    >>> import oplib
    >>> oplib.fft.rfft(oplib.tensor([1.0, 0.0, -1.0, 0.0])).abs()
    tensor([0., 2., 0.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.functions.registry import FFT

_PREFIX = "fft_"
__all__ = sorted(name.removeprefix(_PREFIX) for name in FFT)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables


def __getattr__(name: str) -> Callable[..., Any]:
    """Returns the function of an op, which is made at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = globals()[name] = FFT[f"{_PREFIX}{name}"]
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
