"""Limits of dtypes as Python numbers: ``finfo`` and ``iinfo``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from oplib.errors import DtypeError
from oplib.tracebacks import entry_point

from .rules import find_dtype, get_default_dtype


class finfo:  # noqa: N801  torch's name
    """The limits of a floating dtype. For a complex dtype they are those of its parts.

    Args:
        type: the dtype; by default the default dtype.

    Attributes:
        dtype: the name of the dtype.
        bits: the width of one number.
        eps: the distance from 1 to the next number.
        max: the largest number.
        min: the negative of ``max``.
        tiny: the smallest normal number; also ``smallest_normal``.
        resolution: the decimal resolution, a power of ten.

    Raises:
        DtypeError: the dtype is not floating.

    Source:
        ``torch.finfo`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> oplib.finfo(oplib.float32).eps == 2.0**-23
        True
        >>> oplib.finfo(oplib.bfloat16).max
        3.3895313892515355e+38
    """

    @entry_point
    def __init__(self, type: Any = None) -> None:  # noqa: A002  torch's name
        dtype = get_default_dtype() if type is None else find_dtype(type)
        if not jnp.issubdtype(dtype, jnp.inexact):
            raise DtypeError(
                f"finfo: only a floating dtype has these limits. Got {dtype.name}. Use oplib.iinfo."
            )
        limits: Any = jnp.finfo(dtype)
        self.dtype: str = limits.dtype.name
        self.bits = int(limits.bits)
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.tiny)
        self.resolution = float(limits.resolution)

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{name}={getattr(self, name):g}' for name in names)}, dtype={self.dtype})"


class iinfo:  # noqa: N801  torch's name
    """The limits of an integer dtype.

    Args:
        type: the dtype.

    Attributes:
        dtype: the name of the dtype.
        bits: the width of one number.
        max: the largest number.
        min: the smallest number.

    Raises:
        DtypeError: the dtype is not an integer dtype.

    Source:
        ``torch.iinfo`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> oplib.iinfo(oplib.int8)
        iinfo(min=-128, max=127, dtype=int8)
    """

    @entry_point
    def __init__(self, type: Any) -> None:  # noqa: A002  torch's name
        dtype = find_dtype(type)
        if not jnp.issubdtype(dtype, jnp.integer):
            raise DtypeError(
                f"iinfo: only a dtype of integers has these limits. Got {dtype.name}. Use oplib.finfo."
            )
        limits: Any = jnp.iinfo(dtype)
        self.dtype: str = dtype.name
        self.bits, self.max, self.min = int(limits.bits), int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
