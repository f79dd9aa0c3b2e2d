"""The measured networks, written once for oplib and torch with the names that both share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

RATE = 1e-6  # so small that a thousand steps change neither the loss nor the time of a step

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Network:
    """A network with its loss.

    Attributes:
        name: the name, with the sizes.
        parameters: f32 arrays.
        inputs: the inputs of one step, and the targets.
        compute_loss: maps a library's ``nn.functional``, parameters and inputs to a scalar.
    """

    name: str
    parameters: Arrays
    inputs: Arrays
    compute_loss: Callable[[Any, Sequence[Any], Sequence[Any]], Any]


def make_perceptron(batch: int, widths: Sequence[int]) -> Network:
    """Makes a perceptron of linear layers with relu between them, and its cross entropy.

    Args:
        batch: the number of examples per step.
        widths: the widths of the input, of each layer, and of the last layer, whose items are classes.
    """
    draw = np.random.default_rng(0)
    parameters: Arrays = []
    for before, after in pairwise(widths):
        parameters += [_draw(draw, after, before, scale=before**-0.5), _draw(draw, after, scale=0.1)]
    classes = draw.integers(0, widths[-1], batch).astype(np.int32)

    def compute_loss(functional: Any, parameters: Sequence[Any], inputs: Sequence[Any]) -> Any:
        value, target = inputs
        for place in range(0, len(parameters), 2):
            if place:
                value = functional.relu(value)
            value = functional.linear(value, *parameters[place : place + 2])
        return functional.cross_entropy(value, target)

    name = f"perceptron {batch}x{'-'.join(map(str, widths))}"
    return Network(name, parameters, [_draw(draw, batch, widths[0]), classes], compute_loss)


def make_transformer(batch: int, places: int, width: int, heads: int) -> Network:
    """Makes a transformer block: causal attention and a perceptron, each after a norm and with a residual.

    Args:
        batch: the number of sequences per step.
        places: the length of a sequence.
        width: the width of an item.
        heads: the number of heads of the attention.
    """
    draw = np.random.default_rng(0)
    parameters: Arrays = []
    for before, after in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)):
        parameters += [_draw(draw, after, before, scale=before**-0.5), _draw(draw, after, scale=0.1)]
    parameters += [1 + _draw(draw, width, scale=0.1), _draw(draw, width, scale=0.1)] * 2

    def compute_loss(functional: Any, parameters: Sequence[Any], inputs: Sequence[Any]) -> Any:
        mix, mix_bias, out, out_bias, up, up_bias, down, down_bias, *norms = parameters
        x, target = inputs
        normal = functional.layer_norm(x, (width,), *norms[:2])
        mixed = functional.linear(normal, mix, mix_bias).reshape(batch, places, 3, heads, width // heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + functional.linear(seen.transpose(1, 2).reshape(batch, places, width), out, out_bias)
        normal = functional.layer_norm(x, (width,), *norms[2:])
        inner = functional.gelu(functional.linear(normal, up, up_bias))
        return functional.mse_loss(x + functional.linear(inner, down, down_bias), target)

    inputs = [_draw(draw, batch, places, width) for _ in range(2)]
    name = f"block {batch}x{places}x{width}, {heads} heads"
    return Network(name, parameters, inputs, compute_loss)


def train(library: Any, network: Network, parameters: Sequence[Any], inputs: Sequence[Any]) -> Any:
    """Runs one step of descent, op by op and in place as an optimiser does; returns the value to wait for."""
    differentiate(library, network, parameters, inputs)
    with library.no_grad():
        for parameter in parameters:
            parameter.sub_(parameter.grad, alpha=RATE)
            parameter.grad = None
    return parameters


def differentiate(library: Any, network: Network, parameters: Sequence[Any], inputs: Sequence[Any]) -> Any:
    """Runs forward and backward; the gradients are in the parameters afterwards."""
    loss = network.compute_loss(library.nn.functional, parameters, inputs)
    loss.backward()
    return loss


def _draw(generator: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    return (generator.standard_normal(shape) * scale).astype(np.float32)
