"""A variational autoencoder, with Adam."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.programs.mlp import Perceptron
from tests.programs.optimizers import Adam
from tests.programs.training import Batches, Maker, Training


class VAESizes(NamedTuple):
    """The numbers of an example, of hidden and of latent units, and of examples."""

    width: int = 20
    hidden: int = 24
    latent: int = 3
    batch: int = 12


SMALL = VAESizes()


class VAE:
    """An encoder to the mean and the logarithm of the variance, and a decoder."""

    def __init__(self, make: Maker, sizes: VAESizes) -> None:
        width, hidden, latent, _ = sizes
        self.lib = make.lib
        self.encoder = Perceptron(make, (width, hidden, 2 * latent), make.lib.relu)
        self.decoder = Perceptron(make, (latent, hidden, width), make.lib.relu)

    def loss(self, x: Any, noise: Any) -> tuple[Any, Any]:
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        if noise is None:
            noise = self.lib.randn_like(mean)
        logits = self.decoder(mean + (0.5 * log_variance).exp() * noise)
        entropy = self.lib.nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return entropy / len(x), divergence / len(x)


def make_vae(make: Maker, sizes: VAESizes = SMALL) -> Training:
    model = VAE(make, sizes)
    parameters = [*model.encoder.parameters, *model.decoder.parameters]
    optimizer = Adam(make.lib, parameters, rate=0.01)

    @make.compile
    def step(x: Any, noise: Any = None) -> Any:
        optimizer.zero_grad()
        entropy, divergence = model.loss(x, noise)
        (entropy + divergence).backward()
        optimizer.step()
        return {"entropy": entropy.detach(), "divergence": divergence.detach()}

    return Training(step, parameters)


def draw_vae(random: np.random.Generator, sizes: VAESizes = SMALL) -> Batches:
    while True:
        phase = random.random((sizes.batch, 1)) * 6
        x = (np.sin(phase + np.arange(sizes.width) / 2) > 0).astype(float)
        yield {"x": x, "noise": random.normal(size=(sizes.batch, sizes.latent))}
