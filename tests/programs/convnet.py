"""A convolutional network with batch norm and dropout that classifies images, with momentum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.programs.optimizers import Momentum
from tests.programs.training import Batches, Maker, Training


class ConvNetSizes(NamedTuple):
    """The channels of both convolutions, the side of an image, and the number of images."""

    channels: tuple[int, int] = (4, 8)
    side: int = 8
    batch: int = 8

    @property
    def features(self) -> int:
        return self.channels[1] * (self.side // 4) ** 2


SMALL = ConvNetSizes()


class BatchNorm:
    """Batch norm with running moments."""

    def __init__(self, make: Maker, channels: int) -> None:
        self.function = make.lib.nn.functional.batch_norm
        self.weight, self.bias = make.full(1.0, channels), make.full(0.0, channels)
        self.mean = make.full(0.0, channels, requires_grad=False)
        self.variance = make.full(1.0, channels, requires_grad=False)
        self.count = make.lib.zeros((), dtype=make.lib.int32)
        self.training = True

    def __call__(self, x: Any) -> Any:
        if self.training:
            self.count += 1
        return self.function(
            x, self.mean, self.variance, self.weight, self.bias, training=self.training, momentum=0.1
        )


class ConvNet:
    """Two convolutions, each with batch norm and pooling, dropout, and a linear map."""

    def __init__(self, make: Maker, sizes: ConvNetSizes) -> None:
        few, many = sizes.channels
        self.lib, self.functional = make.lib, make.lib.nn.functional
        self.kernels = {
            "first": make.parameter(few, 1, 3, 3, scale=0.3),
            "second": make.parameter(many, few, 3, 3, scale=0.2),
        }
        self.norms = {"first": BatchNorm(make, few), "second": BatchNorm(make, many)}
        self.head = make.parameter(10, sizes.features)
        self.rate = 0.25

    def __call__(self, x: Any, mask: Any) -> Any:
        for name, kernel in self.kernels.items():
            x = self.functional.relu(self.norms[name](self.functional.conv2d(x, kernel, padding=1)))
            x = self.functional.max_pool2d(x, 2)
        return self.functional.linear(self.drop(x.flatten(1), mask), self.head)

    def drop(self, x: Any, mask: Any) -> Any:
        """Dropout, with a mask from outside if there is one."""
        if mask is None:
            return self.functional.dropout(x, self.rate, training=True)
        return x * mask / (1 - self.rate)

    @property
    def parameters(self) -> list[Any]:
        norms = [one for norm in self.norms.values() for one in (norm.weight, norm.bias)]
        return [*self.kernels.values(), *norms, self.head]

    @property
    def buffers(self) -> list[Any]:
        return [one for norm in self.norms.values() for one in (norm.mean, norm.variance, norm.count)]


def make_convnet(make: Maker, sizes: ConvNetSizes = SMALL) -> Training:
    model = ConvNet(make, sizes)
    optimizer = Momentum(make.lib, model.parameters, rate=0.05)

    @make.compile
    def step(x: Any, y: Any, mask: Any = None) -> Any:
        optimizer.zero_grad()
        loss = make.lib.nn.functional.cross_entropy(model(x, mask), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(step, [*model.parameters, *model.buffers])


def draw_convnet(random: np.random.Generator, sizes: ConvNetSizes = SMALL) -> Batches:
    batch, side = sizes.batch, sizes.side
    while True:
        y = random.integers(0, 10, batch)
        x = random.normal(size=(batch, 1, side, side)) + y[:, None, None, None] / 5
        yield {"x": x, "y": y, "mask": (random.random((batch, sizes.features)) > 0.25).astype(float)}
