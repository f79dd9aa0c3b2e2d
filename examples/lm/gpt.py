"""A small GPT: learned positions, RMS norms, causal attention, and layers stacked for ``oplib.scan``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import oplib
from kernels import attention, cross_entropy, rms_norm
from oplib import Tensor

BLOCK = ("norm1", "inward", "outward", "norm2", "up", "down")
Apply = Callable[[Any, list[Any]], Any]


@dataclass(frozen=True)
class Size:
    """The size of a model; ``letters`` is rounded up, so that devices can share the table of characters."""

    letters: int
    length: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 4


def draw_params(size: Size, seed: int = 0) -> dict[str, np.ndarray]:
    """Draws the weights. What begins with ``blocks.`` has the layers as its first axis."""
    width, heads, layers = size.width, size.heads, size.layers
    scales = {
        "letters": (0.1, (size.letters, width)),
        "positions": (0.1, (size.length, width)),
        "blocks.inward": (width**-0.5, (layers, width, 3, heads, width // heads)),
        "blocks.outward": (width**-0.5, (layers, heads, width // heads, width)),
        "blocks.up": (width**-0.5, (layers, width, 4 * width)),
        "blocks.down": ((4 * width) ** -0.5, (layers, 4 * width, width)),
    }
    rng = np.random.default_rng(seed)
    drawn = {name: scale * rng.standard_normal(shape) for name, (scale, shape) in scales.items()}
    norms = {f"blocks.norm{number}": np.ones((layers, width)) for number in (1, 2)}
    return {
        name: value.astype(np.float32) for name, value in (drawn | norms | {"norm": np.ones(width)}).items()
    }


def apply_block(x: Any, weights: list[Any]) -> Any:
    """Adds attention and a perceptron to ``x`` [batch, length, width], a Tensor or an array."""
    norm1, inward, outward, norm2, up, down = weights
    query, key, value = oplib.einsum("btd,dchk->cbhtk", rms_norm(x, norm1), inward)
    x = x + oplib.einsum("bhtk,hkd->btd", attention(query, key, value), outward)
    return x + oplib.nn.functional.gelu(rms_norm(x, norm2) @ up, approximate="tanh") @ down


def apply_blocks(x: Any, weights: list[Any]) -> Any:
    """Applies the layers one after the other. The program holds one layer, however many there are."""
    x, _ = oplib.scan(lambda x, layer: (apply_block(x, layer), None), x, weights)
    return x


def predict(params: Mapping[str, Tensor], codes: Tensor, apply: Apply = apply_blocks) -> Tensor:
    """Returns the logits [batch, length, letters] of the characters that follow ``codes`` [batch, length]."""
    x = params["letters"][codes] + params["positions"][: codes.shape[1]]
    x = apply(x, [params[f"blocks.{name}"] for name in BLOCK])
    return rms_norm(x, params["norm"]) @ params["letters"].mT


def compute_loss(params: Mapping[str, Tensor], windows: Tensor, apply: Apply = apply_blocks) -> Tensor:
    """Returns the mean cross-entropy, in nats, of each character of ``windows`` after those before it."""
    return cross_entropy(predict(params, windows[:, :-1], apply), windows[:, 1:])
