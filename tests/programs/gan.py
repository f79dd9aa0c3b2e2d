"""A generative adversarial network with two optimizers and two compiled functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.programs.mlp import Perceptron
from tests.programs.optimizers import Adam
from tests.programs.training import Batches, Maker, Training


class GANSizes(NamedTuple):
    """The widths of the generator from the noise on, the hidden ones of the discriminator, and the batch."""

    widths: tuple[int, ...] = (3, 16, 2)
    hidden: tuple[int, ...] = (16,)
    batch: int = 12


SMALL = GANSizes()


class GAN:
    """A generator of points in the plane, and a discriminator."""

    def __init__(self, make: Maker, sizes: GANSizes) -> None:
        self.lib, self.noise = make.lib, sizes.widths[0]
        self.functional = make.lib.nn.functional
        self.generator = Perceptron(make, sizes.widths, make.lib.tanh)
        judging = (sizes.widths[-1], *sizes.hidden, 1)
        self.discriminator = Perceptron(make, judging, self.functional.leaky_relu)
        self.optimizers = {
            "generator": Adam(make.lib, self.generator.parameters, rate=0.01, betas=(0.5, 0.99)),
            "discriminator": Adam(make.lib, self.discriminator.parameters, rate=0.01, betas=(0.5, 0.99)),
        }

    def draw(self, noise: Any, like: Any) -> Any:
        return self.lib.randn(len(like), self.noise, dtype=like.dtype) if noise is None else noise

    def judge(self, points: Any, *, real: bool) -> Any:
        logits = self.discriminator(points)
        return self.functional.binary_cross_entropy_with_logits(
            logits, self.lib.ones_like(logits) if real else self.lib.zeros_like(logits)
        )

    def improve_discriminator(self, points: Any, noise: Any = None) -> Any:
        optimizer = self.optimizers["discriminator"]
        optimizer.zero_grad()
        with self.lib.no_grad():
            made = self.generator(self.draw(noise, points))
        loss = self.judge(points, real=True) + self.judge(made, real=False)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def improve_generator(self, points: Any, noise: Any = None) -> Any:
        optimizer = self.optimizers["generator"]
        optimizer.zero_grad()
        loss = self.judge(self.generator(self.draw(noise, points)), real=True)
        loss.backward()  # the gradients of the discriminator are left for its next step to clear
        optimizer.step()
        return loss.detach()


def make_gan(make: Maker, sizes: GANSizes = SMALL) -> Training:
    model = GAN(make, sizes)
    improve_discriminator = make.compile(model.improve_discriminator)
    improve_generator = make.compile(model.improve_generator)

    def step(points: Any, noise: Any = None, other: Any = None) -> Any:
        return improve_discriminator(points, noise), improve_generator(points, noise=other)

    state = [*model.generator.parameters, *model.discriminator.parameters]
    return Training(step, state)


def draw_gan(random: np.random.Generator, sizes: GANSizes = SMALL) -> Batches:
    while True:
        angle = random.random((sizes.batch, sizes.widths[-1] // 2)) * 2 * np.pi
        points = np.concatenate([np.cos(angle), np.sin(angle)], 1)
        noise, other = random.normal(size=(2, sizes.batch, sizes.widths[0]))
        yield {"points": points, "noise": noise, "other": other}
