"""Whether any call of this process was planned while JAX's 64 bits were on."""

from __future__ import annotations

from typing import Any

import jax

x64: Any = jax.enable_x64  # what ``with`` sets; its value is what holds in this thread


class WidePlans:
    """Whether any call has been planned with 64 bits in this process.

    Attributes:
        any: it has; never taken back.
    """

    any = False


wide_plans = WidePlans()


def note_width() -> bool:
    """Returns whether 64 bits are on, for a plan that is being made."""
    is_wide = bool(x64.value)
    if is_wide:
        wide_plans.any = True
    return is_wide
