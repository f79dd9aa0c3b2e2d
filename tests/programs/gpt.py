"""A small GPT with tied weights, gradient clipping, a learning-rate schedule and Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.programs.optimizers import Adam
from tests.programs.training import Batches, Maker, Training


@dataclass(frozen=True)
class Config:
    """The sizes of a model."""

    vocabulary: int = 16
    length: int = 8
    width: int = 16
    heads: int = 2
    layers: int = 2
    batch: int = 4


SMALL = Config()


class Module:
    """Finds parameters in attributes, as ``torch.nn.Module`` does."""

    def list_parameters(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for value in vars(self).values():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Module):
                    found |= one.list_parameters()
                elif getattr(one, "requires_grad", False):
                    found[id(one)] = one
        return found


class LayerNorm(Module):
    """Layer norm over the last axis."""

    def __init__(self, make: Maker, width: int) -> None:
        self.function = make.lib.nn.functional.layer_norm
        self.weight, self.bias = make.full(1.0, width), make.full(0.0, width)

    def __call__(self, x: Any) -> Any:
        return self.function(x, x.shape[-1:], self.weight, self.bias)


class Attention(Module):
    """Causal attention with several heads."""

    def __init__(self, make: Maker, config: Config) -> None:
        self.config, self.attend = config, make.lib.nn.functional.scaled_dot_product_attention
        self.inward = make.parameter(3 * config.width, config.width)
        self.outward = make.parameter(config.width, config.width)

    def __call__(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = (x @ self.inward.T).split(width, dim=-1)
        query, key, value = [one.view(batch, length, self.config.heads, -1).transpose(1, 2) for one in parts]
        mixed = self.attend(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, width) @ self.outward.T


class Block(Module):
    """Attention and a perceptron, each with a residual connection."""

    def __init__(self, make: Maker, config: Config) -> None:
        self.attention = Attention(make, config)
        self.norms = [LayerNorm(make, config.width) for _ in range(2)]
        self.up = make.parameter(4 * config.width, config.width)
        self.down = make.parameter(config.width, 4 * config.width)
        self.activation = lambda x: make.lib.nn.functional.gelu(x, approximate="tanh")

    def __call__(self, x: Any) -> Any:
        x = x + self.attention(self.norms[0](x))
        return x + self.activation(self.norms[1](x) @ self.up.T) @ self.down.T


class GPT(Module):
    """A decoder whose last linear map has the weight of the embedding."""

    def __init__(self, make: Maker, config: Config) -> None:
        self.lib, self.config = make.lib, config
        self.tokens = make.parameter(config.vocabulary, config.width, scale=0.3)
        self.positions = make.parameter(config.length, config.width, scale=0.1)
        self.blocks = [Block(make, config) for _ in range(config.layers)]
        self.norm = LayerNorm(make, config.width)
        self.head = self.tokens

    def __call__(self, tokens: Any) -> Any:
        functional = self.lib.nn.functional
        positions = self.lib.arange(tokens.shape[1])
        x = functional.embedding(tokens, self.tokens) + functional.embedding(positions, self.positions)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.head.T

    def loss(self, tokens: Any) -> Any:
        logits = self(tokens[:, :-1])
        return self.lib.nn.functional.cross_entropy(
            logits.reshape(-1, self.config.vocabulary), tokens[:, 1:].reshape(-1)
        )


def make_gpt(make: Maker, sizes: Config = SMALL) -> Training:
    model = GPT(make, sizes)
    parameters = list(model.list_parameters().values())
    optimizer = Adam(make.lib, parameters, rate=0.01)

    @make.compile
    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        loss = model.loss(tokens)
        loss.backward()
        norm = make.lib.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        return loss.detach(), norm

    return Training(step, parameters)


def draw_gpt(random: np.random.Generator, sizes: Config = SMALL) -> Batches:
    while True:
        start, stride = random.integers(0, sizes.vocabulary, (2, sizes.batch, 1))
        yield {"tokens": (start + stride * np.arange(sizes.length + 1)) % sizes.vocabulary}
