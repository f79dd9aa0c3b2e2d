"""Fourier transforms under torch's names: ``oplib.fft.rfft(x)`` is the op ``fft_rfft``.

Example:
    >>> import oplib
    >>> oplib.fft.rfft(oplib.tensor([1.0, 0.0, -1.0, 0.0])).abs()
    tensor([0., 2., 0.])
"""

from __future__ import annotations

from oplib.builtin.public_functions.registry import FFT
from oplib.torch_names import make_lookups as _make_lookups

_FUNCTIONS = FFT.rename({name.removeprefix("fft_"): name for name in FFT})
__all__ = sorted(_FUNCTIONS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
__getattr__, __dir__ = _make_lookups(globals(), _FUNCTIONS)
