"""Image shifts in plain numpy: code that runs on the host and cannot be compiled can be an op too."""

from __future__ import annotations

import jax
import numpy as np

import oplib


@oplib.custom_op("digits::shift_images")
def shift_images(images: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Moves each of ``images`` [rows, height, width] down and right by its ``offsets`` [rows, 2].

    Pixels that enter over the edge are zero.
    """
    shifted = np.zeros_like(images)
    for image, (down, right), target in zip(images, offsets, shifted, strict=True):
        target[clip(down), clip(right)] = image[clip(-down), clip(-right)]
    return shifted


def clip(offset: int) -> slice:
    """Returns the part of an axis that is still visible after a shift."""
    return slice(max(offset, 0), None if offset >= 0 else int(offset))


@shift_images.register_fake
def shift_images_shape(images: jax.ShapeDtypeStruct, offsets: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """Returns the shape of the result, because a trace cannot look into numpy code."""
    return jax.ShapeDtypeStruct(images.shape, images.dtype)


shift_images.register_autograd(constant="because images are data, and are not learned")
