# ruff: noqa: A002  the parameters are torch's
"""Fourier transforms of matrices, and the frequencies that transforms are about."""

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
    input: {takes}, of at least two dims.
    s: the sizes to which it is cut, or filled with zeros, first; -1 for what it has.
    dim: the two dims.
    norm: by what the result is divided: "backward", by nothing there and the count on the way back,
        "forward", the other way round, or "ortho", by its root on both.

Returns:
    A tensor, {gives}.

Raises:
    ArgumentError: a size below 1, another norm, or a dtype that does not fit.
    DimensionError: there is no such dim.

Gradient:
    The transform is linear: that of the conjugate transpose.

Source:
    torch.fft.{name}

Example:
    >>> import oplib
    >>> oplib.fft.{name}(oplib.ones(2, 2)).shape
    {shape}
"""
_OF_MATRICES = {
    "fft2": ("The discrete Fourier transform along two dims", "real or complex", "complex", "(2, 2)"),
    "ifft2": ("The inverse of fft2", "real or complex", "complex", "(2, 2)"),
    "rfft2": ("The half of fft2 that real numbers need", "real", "complex", "(2, 2)"),
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
    "hfft2": ("Transforms a half of what is symmetric up to conjugation, along two dims", "complex", "real"),
    "ihfft2": ("The inverse of hfft2", "real", "complex, a half of what is symmetric up to conjugation"),
    "hfftn": ("Transforms a half of what is symmetric up to conjugation", "complex", "real"),
    "ihfftn": ("The inverse of hfftn", "real", "complex, a half of what is symmetric up to conjugation"),
}


def _make_of_hermitian(name: str) -> Function:
    """By the transforms of real numbers, the other way round, of conjugates."""
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
                "Give those of the signal."
            )
        found = get_default_dtype() if dtype is None else dtype
        values = tensor(find(n, d).tolist(), dtype=found, device=device)
        return values.requires_grad_(requires_grad)

    frequencies.__name__ = f"fft_{name}"
    frequencies.__doc__ = _FREQUENCIES.format(name=name, some=some, shown=find(4).tolist())
    return frequencies


_FREQUENCIES = """Lists the frequencies of a transform{some}, in its order.

Args:
    n: how many items the signal has.
    d: from item to item.
    dtype: floating; by default the default dtype.
    device: where the result is to be.
    requires_grad: whether gradients are wanted.

Returns:
    A vector.

Raises:
    ArgumentError: a signal without items, or no distance.

Gradient:
    None: there is nothing to differentiate by.

Source:
    torch.fft.{name}

Example:
    >>> import oplib
    >>> oplib.fft.{name}(4).tolist()
    {shown}
"""

COMPOSED = (
    *(Composed(_make_of_matrices(one)) for one in _OF_MATRICES),
    *(Composed(_make_of_hermitian(one)) for one in _OF_HERMITIAN),
    Composed(_make_frequencies(np.fft.fftfreq), makes=True),
    Composed(_make_frequencies(np.fft.rfftfreq, ", but the negative ones"), makes=True),
)
