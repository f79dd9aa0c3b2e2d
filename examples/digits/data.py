"""The digits of scikit-learn: 1,797 images of handwritten digits, 8 by 8 pixels, part of that package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

CLASSES = 10
SIDE = 8
BRIGHTEST = 16


class Digits(NamedTuple):
    """Images [rows, 8, 8] with brightness from 0 to 1, and the digit that each shows."""

    images: np.ndarray
    labels: np.ndarray


def load_split(seed: int) -> tuple[Digits, Digits]:
    """Returns the training digits, and a fifth of all digits as test data."""
    images, labels = load_digits(return_X_y=True)
    images = (images / BRIGHTEST).astype(np.float32).reshape(-1, SIDE, SIDE)
    split = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=seed)
    train_images, test_images, train_labels, test_labels = split
    return Digits(train_images, train_labels), Digits(test_images, test_labels)


def draw_batches(digits: Digits, size: int, rng: np.random.Generator) -> Iterator[Digits]:
    """Yields the images in random order, in batches of one size; an incomplete last batch is dropped."""
    order = rng.permutation(len(digits.labels))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        yield Digits(digits.images[chosen], digits.labels[chosen])


def draw_offsets(count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws the offset of each image: up to one pixel in each direction, because a digit fills its height."""
    sideways = rng.integers(-1, 2, size=(count, 1))
    return np.concatenate([np.zeros_like(sideways), sideways], axis=1).astype(np.int32)
