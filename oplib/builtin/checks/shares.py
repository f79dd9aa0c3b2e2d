# ruff: noqa: A002  the parameters are torch's
"""Checks of the probabilities that a loss takes: outside [0, 1] the formula would still return a number."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.builtin.rows.choice import Check
from oplib.builtin.values import find_array, is_traced
from oplib.errors import ArgumentError, describe


@jax.jit
def _find_extremes(*arrays: Any) -> Any:
    """Returns the lowest and highest item of each array, one row per array; nan if it contains nan."""
    return jnp.stack([jnp.stack([jnp.min(one), jnp.max(one)]).astype(jnp.float32) for one in arrays])


def make_share_check(name: str) -> Check:
    """Makes the check of a loss that refuses probabilities outside [0, 1], if the values are known.

    Args:
        name: the name of the op, for the error.
    """

    def check(result: Any, input: Any, target: Any, *_: Any, **__: Any) -> Any:
        arrays = [find_array(one) for one in (input, target)]
        if all(map(_has_values, arrays)):
            extremes = zip(("input", "target"), np.asarray(_find_extremes(*arrays)), strict=True)
            for kind, (low, high) in extremes:
                if not (low >= 0 and high <= 1):  # also refuses nan
                    raise ArgumentError(
                        f"{name}: all elements of {kind} should be between 0 and 1. Got {describe(input)} "
                        f"and {describe(target)}, {kind} from {low:.6g} to {high:.6g}. Take sigmoid of it, "
                        f"or use {name}_with_logits."
                    )
        return result

    return Check(result=check)  # other errors have priority


def _has_values(array: Any) -> bool:
    is_array = isinstance(array, (jax.Array, np.ndarray)) and not is_traced(array)
    return is_array and array.size > 0 and jnp.issubdtype(array.dtype, jnp.floating)
