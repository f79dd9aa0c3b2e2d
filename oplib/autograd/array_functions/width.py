"""A record of whether any call of this process was planned while JAX's 64 bits were on."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

WIDE = {np.dtype("float64"), np.dtype("complex128")}
x64: Any = jax.enable_x64  # a context manager; ``.value`` is the setting of this thread


class WidePlans:
    """Records whether any call of this process has been planned with 64 bits.

    Attributes:
        any: whether one has been. It is never reset.
    """

    any = False


wide_plans = WidePlans()


def note_width() -> bool:
    """Returns whether 64 bits are on, and records it for the plan being made."""
    is_wide = bool(x64.value)
    if is_wide:
        wide_plans.any = True
    return is_wide
