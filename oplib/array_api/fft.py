"""The extension ``fft`` of the array API standard. Several axes are ``axes`` there, and ``dim`` in oplib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.builtin.public_functions.registry import FFT
from oplib.tensor import Tensor
from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr

from .naming import collect

_SAME = ("fft", "fftfreq", "hfft", "ifft", "ihfft", "irfft", "rfft", "rfftfreq")
FUNCTIONS: dict[str, Any] = {}
_standard = collect(FUNCTIONS, __name__)


def _make_transform(name: str) -> Callable[..., Tensor]:
    def transform(
        x: Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:
        return FFT[f"fft_{name}"](x, s=s, dim=axes, norm=norm)

    transform.__name__ = name
    transform.__doc__ = f"``oplib.fft.{name}``, whose ``dim`` is ``axes``."
    return _standard(transform)


def _make_shift(name: str) -> Callable[..., Tensor]:
    def shift(x: Tensor, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
        return FFT[f"fft_{name}"](x, dim=axes)

    shift.__name__ = name
    shift.__doc__ = f"``oplib.fft.{name}``, whose ``dim`` is ``axes``."
    return _standard(shift)


for _name in ("fftn", "ifftn", "irfftn", "rfftn"):
    _make_transform(_name)
for _name in ("fftshift", "ifftshift"):
    _make_shift(_name)

_VALUES = FFT.rename({name: f"fft_{name}" for name in _SAME})
globals().update(FUNCTIONS)
__all__ = sorted({*_SAME, *FUNCTIONS})  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
__dir__ = _make_dir(globals())
__getattr__ = _make_getattr(globals(), _VALUES)
