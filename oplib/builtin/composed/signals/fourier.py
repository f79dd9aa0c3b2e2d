# ruff: noqa: A002  the parameters are torch's
"""Fourier transforms of matrices, and the frequencies of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oplib.builtin.rows.composed import Composed
from oplib.builtin.single_ops import ops
from oplib.errors import ArgumentError
from oplib.tensor import get_default_dtype
from oplib.tensor.factories.from_data import tensor

Function = Callable[..., Any]

_DOC = """{what}.

Args:
    input: {takes}, with at least two dims.
    s: the sizes to which the input is first cut or padded with zeros; -1 keeps a size.
    dim: the two dims.
    norm: the transform that is divided by the number of items: "backward" the inverse, "forward" the
        forward transform; "ortho" divides both by the root.

Returns:
    A tensor, {gives}.

Raises:
    ArgumentError: a size is below 1, the norm is invalid, or the dtype does not fit.
    DimensionError: the dim does not exist.

Gradient:
    The conjugate transpose of the transform, which is linear.

Example:
    >>> oplib.fft.{name}(oplib.ones(2, 2)).shape
    {shape}
"""
_OF_MATRICES = {
    "fft2": ("The discrete Fourier transform along two dims", "real or complex", "complex", "(2, 2)"),
    "ifft2": ("The inverse of fft2", "real or complex", "complex", "(2, 2)"),
    "rfft2": ("The half of fft2 that suffices for real input", "real", "complex", "(2, 2)"),
    "irfft2": ("The inverse of rfft2", "real or complex", "real", "(2, 2)"),
}


def _make_of_matrices(name: str) -> Function:
    of_several = f"fft_{name[:-1]}n"

    def transform(
        input: Any, s: Sequence[int] | None = None, dim: Any = (-2, -1), norm: str | None = None
    ) -> Any:
        return getattr(ops, of_several)(input, s, dim, norm)

    what, takes, gives, shape = _OF_MATRICES[name]
    transform.__name__ = f"fft_{name}"
    transform.__doc__ = _DOC.format(what=what, takes=takes, gives=gives, name=name, shape=shape)
    return transform


_TURNED = {None: "forward", "backward": "forward", "forward": "backward"}
_OF_HERMITIAN = {
    "hfft2": (
        "The real transform of one half of a Hermitian-symmetric signal, along two dims",
        "complex",
        "real",
    ),
    "ihfft2": ("The inverse of hfft2", "real", "complex, one half of a Hermitian-symmetric signal"),
    "hfftn": ("The real transform of one half of a Hermitian-symmetric signal", "complex", "real"),
    "ihfftn": ("The inverse of hfftn", "real", "complex, one half of a Hermitian-symmetric signal"),
}


def _make_of_hermitian(name: str) -> Function:
    """Uses the transforms of real numbers in the opposite direction, on conjugates."""
    dims = (-2, -1) if name.endswith("2") else None

    def transform(
        input: Any, s: Sequence[int] | None = None, dim: Any = dims, norm: str | None = None
    ) -> Any:
        turned = _TURNED.get(norm, norm)
        if name.startswith("i"):
            return ops.conj(ops.fft_rfftn(input, s, dim, turned))
        return ops.fft_irfftn(ops.conj(input), s, dim, turned)

    what, takes, gives = _OF_HERMITIAN[name]
    transform.__name__ = f"fft_{name}"
    doc = _DOC.format(what=what, takes=takes, gives=gives, name=name, shape="(2, 2)")
    transform.__doc__ = (
        doc
        if dims
        else doc.replace("the two dims", "the dims; by default all").replace("two dims", "one dim")
    )
    return transform


def _make_frequencies(find: Callable[..., Any], some: str = "") -> Function:
    name = find.__name__

    def frequencies(
        n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        if n < 1 or not d:
            raise ArgumentError(
                f"fft.{name}: the length must be positive, and the distance not 0. Got n={n} and d={d}. "
                "Pass those of the signal."
            )
        found = get_default_dtype() if dtype is None else dtype
        values = tensor(find(n, d).tolist(), dtype=found, device=device)
        return values.requires_grad_(requires_grad)

    frequencies.__name__ = f"fft_{name}"
    frequencies.__doc__ = _FREQUENCIES.format(name=name, some=some, shown=find(4).tolist())
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
    *(Composed(_make_of_matrices(one)) for one in _OF_MATRICES),
    *(Composed(_make_of_hermitian(one)) for one in _OF_HERMITIAN),
    Composed(_make_frequencies(np.fft.fftfreq), makes=True),
    Composed(_make_frequencies(np.fft.rfftfreq, ", except the negative ones"), makes=True),
)
