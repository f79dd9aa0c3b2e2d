"""Fourier transforms along one or several dims; the names of ``oplib.fft``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.dims import find_dim, find_dims
from oplib.builtin.shared_kernels.promotion import to_floating
from oplib.errors import ArgumentError, DimensionError
from oplib.tensor.dtypes.rules import COMPLEX

_OF_REALS = ("rfft", "ihfft")  # kinds of transforms that accept only real numbers
_TO_REALS = ("irfft", "hfft")
_NORMS = (None, "backward", "ortho", "forward")


def _prepare(self: Any, norm: str | None) -> Any:
    """Checks the arguments that all transforms share; returns floating numbers."""
    if norm not in _NORMS:
        raise ArgumentError("invalid normalization mode", "Choose 'backward', 'ortho' or 'forward'.")
    return to_floating(self)


def _check_count(count: int) -> None:
    if count < 1:
        raise ArgumentError("invalid number of data points specified", "Ask for one at least.")


def _transform_along(op: str, self: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    transform = getattr(jnp.fft, op)
    array = _prepare(self, norm)
    axis = find_dim(array.ndim, dim)
    if not array.ndim:
        raise DimensionError(f"a tensor without dims has no {dim}", "Reshape it.")
    length = array.shape[axis]
    size = 2 * (length - 1) if op in _TO_REALS else length
    _check_count(min(size if n is None else n, length))
    return transform(array, n, axis, norm)


_TURNED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _find_transform(kind: str) -> Any:
    """Returns the transform along several axes; of signals with symmetry it is one in the other direction."""
    if kind == "hfft":
        return lambda array, s, axes, norm: jnp.fft.irfftn(jnp.conj(array), s, axes, _TURNED[norm])
    if kind == "ihfft":
        return lambda array, s, axes, norm: jnp.conj(jnp.fft.rfftn(array, s, axes, _TURNED[norm]))
    return getattr(jnp.fft, f"{kind}n")


def _transform_over(
    op: str,
    self: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    kind = op[:-1]
    transform = _find_transform(kind)
    array = _prepare(self, norm)
    axes = _find_axes(op, array, s, dim)
    sizes = [array.shape[axis] for axis in axes]
    if kind in _TO_REALS and axes:
        sizes[-1] = 2 * (sizes[-1] - 1)
    wanted = sizes if s is None else [have if due == -1 else due for have, due in zip(sizes, s, strict=True)]
    _check_count(min([*wanted, *(array.shape[axis] for axis in axes)], default=1))
    if not axes:
        return _to_complex(array)
    return transform(array, tuple(wanted), axes, norm)


def _find_axes(op: str, array: Any, s: Sequence[int] | None, dim: Sequence[int] | None) -> tuple[int, ...]:
    if dim and not array.ndim:
        raise DimensionError(f"a tensor without dims has no {list(dim)}", "Reshape it.")
    if dim is not None:
        axes = find_dims(array, dim) if dim else ()
    else:
        axes = tuple(range(array.ndim - (array.ndim if s is None else len(s)), array.ndim))
    if (s is not None and len(s) != len(axes)) or (axes and min(axes) < 0):
        raise ArgumentError(
            "when given, dim and shape arguments must have the same length, and be no more than the dims "
            "of the input",
            "Give one size for each.",
        )
    if op[:-1] in (*_OF_REALS, *_TO_REALS) and not axes:
        raise ArgumentError("must transform at least one axis", "Name one.")
    return axes


def _to_complex(array: Any) -> Any:
    return array if array.dtype in COMPLEX else lax.complex(array, jnp.zeros_like(array))


def _shift(op: str, self: Any, dim: Sequence[int] | None = None) -> Any:
    axes = find_dims(self, dim)
    shifts = [
        math.ceil(self.shape[axis] / 2) if op == "ifftshift" else self.shape[axis] // 2 for axis in axes
    ]
    return jnp.roll(self, shifts, axes) if axes else self


def _row(op: str, doc: str) -> Row:
    return Row(
        f"fft_{op}(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
        partial(_transform_along, op),
        doc,
        dtypes="bif" if op in _OF_REALS else "bifc",
        autocast="cpu float32",
    )


def _row_over(op: str, doc: str) -> Row:
    dims = "int[1] dim=[-2, -1]" if op.endswith("2") else "int[1]? dim=None"
    return Row(
        f"fft_{op}(Tensor self, int[1]? s=None, {dims}, str? norm=None) -> Tensor",
        partial(_transform_over, op),
        doc,
        dtypes="bif" if op[:-1] in _OF_REALS else "bifc",
        autocast="cpu float32",
    )


_OVER = {
    "fft": "discrete Fourier transform along {dims}",
    "ifft": "inverse of {of}",
    "rfft": "half of {of}, which suffices for real input",
    "irfft": "real inverse of r{of}",
    "hfft": "real transform of one half of a Hermitian-symmetric signal, along {dims}",
    "ihfft": "inverse of h{of}, for real input",
}

ROWS = (
    _row("fft", "discrete Fourier transform along a dim"),
    _row("ifft", "inverse of fft"),
    _row("rfft", "half of fft, which suffices for real input"),
    _row("irfft", "real inverse of rfft"),
    _row("hfft", "real transform of one half of a Hermitian-symmetric signal"),
    _row("ihfft", "inverse of hfft, for real input"),
    *(
        _row_over(f"{kind}{end}", doc.format(dims=dims, of=f"fft{end}"))
        for end, dims in (("n", "several dims"), ("2", "two dims"))
        for kind, doc in _OVER.items()
    ),
    *(
        Row(f"fft_{op}(Tensor self, int[1]? dim=None) -> Tensor", partial(_shift, op), doc)
        for op, doc in (
            ("fftshift", "frequencies in increasing order, with 0 in the middle"),
            ("ifftshift", "inverse of fftshift"),
        )
    ),
)
