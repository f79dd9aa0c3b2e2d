"""The text that is learned: the reference of the language that each Python carries with it, as characters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding


@dataclass(frozen=True)
class Text:
    """A text as numbers of its characters.

    Attributes:
        letters: the characters in order; the index of one is its number.
        codes: the number of each character of the text.
    """

    letters: str
    codes: np.ndarray

    def encode(self, words: str) -> np.ndarray:
        """Returns the numbers of the characters of ``words``, all of which the text has."""
        return np.array([self.letters.index(letter) for letter in words], np.int32)

    def decode(self, codes: Iterable[int]) -> str:
        """Returns the characters of ``codes``. Numbers without a character are shown as a question mark."""
        return "".join(self.letters[code] if code < len(self.letters) else "?" for code in codes)


def load_text() -> Text:
    """Returns about 450,000 characters of English and Python."""
    words = "\n\n".join(topics[name] for name in sorted(topics))
    letters = sorted(set(words))
    numbers = {letter: number for number, letter in enumerate(letters)}
    return Text("".join(letters), np.array([numbers[letter] for letter in words], np.int32))


def draw_batch(text: Text, step: int, shape: tuple[int, int], sharding: NamedSharding) -> jax.Array:
    """Returns the windows [batch, length] of a step, spread over devices.

    All processes draw the same starts, and each reads only the windows of its own devices.
    """
    batch, length = shape
    starts = np.random.default_rng(step).integers(0, len(text.codes) - length, batch)

    def read(index: Any) -> np.ndarray:
        return np.stack([text.codes[start : start + length] for start in starts[index[0]]])[:, index[1]]

    return jax.make_array_from_callback(shape, sharding, read)
