"""Generators below the tape: a call draws one key, and the kernel gets a Generator that begins there.

So a kernel is a function of its operands, of which the key is one, and what it draws is right wherever JAX
takes it: compiled it draws anew at each call, and a rule that begins at the same key draws the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from oplib.tensor import Generator, Tensor, default_generator
from oplib.tensor.random.generator import begin_at, is_key


def draw_keys(flat: Sequence[Any]) -> list[Any]:
    """Puts keys in the places of Generators; None stands for the global one.

    Raises:
        TracingError: a Generator was made outside the running trace, or in a map that may not draw.
    """
    return [_draw(value) if value is None or isinstance(value, Generator) else value for value in flat]


def _draw(generator: Generator | None) -> Any:
    return (default_generator if generator is None else generator).next_key()


def hold_keys(flat: Sequence[Any]) -> list[Any]:
    """Puts keys in the places of Generators that are not to move, where only shapes are asked for."""
    return [jax.random.key(0) if value is None or isinstance(value, Generator) else value for value in flat]


def make_generator(value: Any) -> Any:
    """Returns what a kernel or rule gets for a key: a Generator; on the host that of numpy.

    Args:
        value: a key, or a Tensor around it; on the host its data, of uint32.
    """
    array = value._storage.array if isinstance(value, Tensor) else value
    if isinstance(array, np.ndarray):
        return np.random.default_rng(array)
    return begin_at(array) if is_key(array) else value


def to_key(value: Any) -> Any:
    """Returns the key at which the Generator of a call begins; anything else is returned as it is."""
    return value.get_state()[1] if isinstance(value, Generator) else value


def to_key_data(value: Any) -> Any:
    """Returns a key as numbers, which is what the host can hold; anything else is returned as it is."""
    return jax.random.key_data(value) if is_key(value) else value
