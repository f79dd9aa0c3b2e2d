"""Torch's path ``types``: names for annotations.

Example:
    >>> import oplib
    >>> isinstance(2.0, oplib.types.Number)
    True
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from oplib.tensor import Device as _Device

_size, _dtype, _device = Sequence[int], np.dtype, _Device
Number: TypeAlias = int | float | bool
Device: TypeAlias = _Device | str | int | None

__all__ = ["Device", "Number"]
