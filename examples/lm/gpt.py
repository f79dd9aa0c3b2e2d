"""A small GPT: learned positions, RMS norms, causal attention, and layers stacked for ``oplib.scan``."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import oplib
from kernels import attention, cross_entropy, rms_norm
from oplib import Tensor

BLOCK = ("norm1", "inward", "outward", "norm2", "up", "down")
Apply = Callable[[Any, list[Any]], Any]


class Size(NamedTuple):
    """The size of a model of ASCII characters."""

    letters: int = 128
    length: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 4


def draw_params(size: Size) -> dict[str, np.ndarray]:
    """Draws the weights. What begins with ``blocks.`` has the layers as its first axis."""
    letters, length, width, heads, layers = size
    shapes = {
        "letters": (letters, width),
        "positions": (length, width),
        "blocks.inward": (layers, width, 3, heads, width // heads),
        "blocks.outward": (layers, heads, width // heads, width),
        "blocks.up": (layers, width, 4 * width),
        "blocks.down": (layers, 4 * width, width),
    }
    rng = np.random.default_rng(0)
    params = {name: np.float32(rng.normal(0, 0.1, shape)) for name, shape in shapes.items()}
    norms = {"blocks.norm1": (layers, width), "blocks.norm2": (layers, width), "norm": (width,)}
    return params | {name: np.ones(shape, np.float32) for name, shape in norms.items()}


def apply_block(x: Any, weights: list[Any]) -> tuple[Any, None]:
    """Adds attention and a perceptron to ``x`` [batch, length, width], a Tensor or an array, for a scan."""
    norm1, inward, outward, norm2, up, down = weights
    query, key, value = oplib.einsum("btd,dchk->cbhtk", rms_norm(x, norm1), inward)
    x = x + oplib.einsum("bhtk,hkd->btd", attention(query, key, value), outward)
    return x + oplib.nn.functional.gelu(rms_norm(x, norm2) @ up, approximate="tanh") @ down, None


def apply_blocks(x: Any, weights: list[Any]) -> Any:
    """Applies the layers one after the other. The program holds one layer, however many there are."""
    return oplib.scan(apply_block, x, weights)[0]


def predict(params: Mapping[str, Tensor], codes: Tensor, apply: Apply = apply_blocks) -> Tensor:
    """Returns the logits [batch, length, letters] of the characters that follow ``codes`` [batch, length]."""
    x = params["letters"][codes] + params["positions"][: codes.shape[1]]
    x = apply(x, [params[f"blocks.{name}"] for name in BLOCK])
    return rms_norm(x, params["norm"]) @ params["letters"].mT


def compute_loss(params: Mapping[str, Tensor], windows: Tensor, apply: Apply = apply_blocks) -> Tensor:
    """Returns the mean cross-entropy, in nats, of each character of ``windows`` after those before it."""
    return cross_entropy(predict(params, windows[:, :-1], apply), windows[:, 1:])
