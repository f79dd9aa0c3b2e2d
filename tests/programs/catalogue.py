"""The training programs of this folder, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tests.programs.convnet import ConvNetSizes, draw_convnet, make_convnet
from tests.programs.gan import GANSizes, draw_gan, make_gan
from tests.programs.gpt import Config, draw_gpt, make_gpt
from tests.programs.hooked import make_hooked
from tests.programs.lstm import LSTMSizes, draw_lstm, make_lstm
from tests.programs.maml import MAMLSizes, draw_maml, make_maml
from tests.programs.mlp import MLPSizes, draw_mlp, make_mlp
from tests.programs.reinforce import ReinforceSizes, draw_reinforce, make_reinforce
from tests.programs.training import Batches, Training
from tests.programs.vae import VAESizes, draw_vae, make_vae


class Program(NamedTuple):
    """A training program.

    Attributes:
        make: makes models and optimizers from a Maker, in the sizes of the tests or in given ``sizes``.
        draw: draws the arrays of steps from a Generator of numpy, in the same sizes.
        noise: which of these oplib can draw itself.
    """

    make: Callable[..., Training]
    draw: Callable[..., Batches]
    noise: tuple[str, ...] = ()


PROGRAMS = {
    "mlp": Program(make_mlp, draw_mlp),
    "convnet": Program(make_convnet, draw_convnet, ("mask",)),
    "gpt": Program(make_gpt, draw_gpt),
    "lstm": Program(make_lstm, draw_lstm),
    "lstm_scan": Program(partial(make_lstm, uses_scan=True), draw_lstm),  # torch runs a loop
    "vae": Program(make_vae, draw_vae, ("noise",)),
    "reinforce": Program(make_reinforce, draw_reinforce, ("uniform",)),
    "maml": Program(make_maml, draw_maml),
    "hooked": Program(make_hooked, draw_mlp),
    "gan": Program(make_gan, draw_gan, ("noise", "other")),
}

_DIGITS = 28 * 28

PUBLIC_SIZES = {
    "mlp": MLPSizes((_DIGITS, 256, 256, 1), batch=64),
    "convnet": ConvNetSizes((32, 64), side=28, batch=32),  # PyTorch's example on handwritten digits
    "gpt": Config(vocabulary=65, length=64, width=128, heads=4, layers=4, batch=12),  # nanoGPT's for a CPU
    "lstm": LSTMSizes(width=200, batch=20, length=35),  # the small one of Zaremba and others, 2014
    "vae": VAESizes(_DIGITS, hidden=400, latent=20, batch=128),  # PyTorch's example
    "reinforce": ReinforceSizes(hidden=128, steps=50, walkers=10),  # the policy of PyTorch's example
    "maml": MAMLSizes(hidden=40, tasks=25, examples=10),  # sine waves of Finn and others, 2017
    "hooked": MLPSizes((_DIGITS, 256, 256, 1), batch=64),
    "gan": GANSizes((100, 128, 256, 512, 1024, _DIGITS), (512, 256), batch=64),  # PyTorch-GAN's first
}
"""Sizes at which public programs of these kinds are run; those of the tests are small."""


def resize(name: str) -> Program:
    """Returns a program in its public sizes."""
    make, draw, noise = PROGRAMS[name]
    sizes: Any = PUBLIC_SIZES[name]
    return Program(partial(make, sizes=sizes), partial(draw, sizes=sizes), noise)
