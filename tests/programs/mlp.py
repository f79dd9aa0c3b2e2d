"""A perceptron with two hidden layers that fits a function, with Adam."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tests.programs.optimizers import Adam
from tests.programs.training import Batches, Maker, Training


class MLPSizes(NamedTuple):
    """The widths of layers, and the number of examples."""

    widths: tuple[int, ...] = (4, 32, 32, 1)
    batch: int = 16


SMALL = MLPSizes()


class Linear:
    """An affine map."""

    def __init__(self, make: Maker, inputs: int, outputs: int) -> None:
        self.weight, self.bias = make.parameter(outputs, inputs), make.full(0.0, outputs)

    def __call__(self, x: Any) -> Any:
        return x @ self.weight.T + self.bias


class Perceptron:
    """Linear maps with an activation between them."""

    def __init__(self, make: Maker, sizes: tuple[int, ...], activation: Any) -> None:
        self.layers = [Linear(make, *pair) for pair in pairwise(sizes)]
        self.activation = activation

    def __call__(self, x: Any) -> Any:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)

    @property
    def parameters(self) -> list[Any]:
        return [one for layer in self.layers for one in (layer.weight, layer.bias)]


def make_mlp(make: Maker, sizes: MLPSizes = SMALL) -> Training:
    model = Perceptron(make, sizes.widths, make.lib.tanh)
    optimizer = Adam(make.lib, model.parameters, rate=0.01)

    @make.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(step, [*model.parameters, *optimizer.first, *optimizer.second, optimizer.count])


def draw_mlp(random: np.random.Generator, sizes: MLPSizes = SMALL) -> Batches:
    while True:
        x = random.normal(size=(sizes.batch, sizes.widths[0]))
        yield {"x": x, "y": np.sin(x.sum(1, keepdims=True))}
