"""Generators below the tape: a call draws one key, and the kernel gets a Generator that starts at this key.

The key is one of the operands, so a kernel is a function of its operands under every transformation of JAX. A
compiled kernel draws new numbers at each call, and a rule that starts at the same key draws the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from oplib.tensor import Generator, Tensor, default_generator
from oplib.tensor.random.generator import begin_at, is_key


def draw_keys(flat: Sequence[Any]) -> list[Any]:
    """Replaces Generators by keys; None stands for the global Generator.

    Raises:
        TracingError: a Generator was made outside the running trace, or in a map that may not draw.
    """
    return [_draw(value) if value is None or isinstance(value, Generator) else value for value in flat]


def _draw(generator: Generator | None) -> Any:
    return (default_generator if generator is None else generator).next_key()


def hold_keys(flat: Sequence[Any]) -> list[Any]:
    """Replaces Generators by keys without advancing them; used if only shapes are needed."""
    return [jax.random.key(0) if value is None or isinstance(value, Generator) else value for value in flat]


def make_generator(value: Any) -> Any:
    """Returns the Generator that a kernel or rule gets for a key; on the host a numpy Generator.

    Args:
        value: a key, or a Tensor around it; on the host the data of the key, of uint32.
    """
    array = value._storage.array if isinstance(value, Tensor) else value
    if isinstance(array, np.ndarray):
        return np.random.default_rng(array)
    return begin_at(array) if is_key(array) else value


def to_key(value: Any) -> Any:
    """Returns the key at which the Generator of a call starts; any other value is returned unchanged."""
    return value.get_state()[1] if isinstance(value, Generator) else value


def to_key_data(value: Any) -> Any:
    """Returns the data of a key, which the host can hold; any other value is returned unchanged."""
    return jax.random.key_data(value) if is_key(value) else value
