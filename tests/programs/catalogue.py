"""The training programs of this folder, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from tests.programs.convnet import draw_convnet, make_convnet
from tests.programs.gan import draw_gan, make_gan
from tests.programs.gpt import draw_gpt, make_gpt
from tests.programs.hooked import make_hooked
from tests.programs.lstm import draw_lstm, make_lstm
from tests.programs.maml import draw_maml, make_maml
from tests.programs.mlp import draw_mlp, make_mlp
from tests.programs.reinforce import draw_reinforce, make_reinforce
from tests.programs.training import Batches, Maker, Training
from tests.programs.vae import draw_vae, make_vae


class Program(NamedTuple):
    """A training program.

    Attributes:
        make: makes models and optimizers.
        draw: draws the arrays of steps.
        noise: which of these oplib can draw itself.
    """

    make: Callable[[Maker], Training]
    draw: Callable[[np.random.Generator], Batches]
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
