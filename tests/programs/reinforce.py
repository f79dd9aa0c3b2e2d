"""REINFORCE with a baseline: many walkers on a line learn to stay near its middle."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.programs.mlp import Perceptron
from tests.programs.optimizers import Adam
from tests.programs.training import Batches, Maker, Training


class ReinforceSizes(NamedTuple):
    """The hidden units, the steps of an episode, and the walkers."""

    hidden: int = 16
    steps: int = 6
    walkers: int = 10


SMALL = ReinforceSizes()


class Policy:
    """A policy over three moves, and a running mean of returns."""

    def __init__(self, make: Maker, sizes: ReinforceSizes) -> None:
        self.lib, self.sizes = make.lib, sizes
        self.network = Perceptron(make, (2, sizes.hidden, 3), make.lib.tanh)
        self.moves = make.lib.tensor(np.array([-1.0, 0.0, 1.0], make.dtype))
        self.baseline = make.full(0.0, sizes.steps, requires_grad=False)

    def act(self, position: Any, speed: Any, uniform: Any) -> tuple[Any, Any]:
        """Samples moves by comparing uniform numbers with the cumulative probabilities."""
        logs = self.network(self.lib.stack([position, speed], dim=-1)).log_softmax(-1)
        with self.lib.no_grad():
            below = logs.exp().cumsum(-1)[:, :-1] < uniform[:, None]
            chosen = below.sum(-1)
        return self.moves[chosen], logs.gather(-1, chosen[:, None]).squeeze(-1)

    def play(self, position: Any, uniform: Any) -> tuple[Any, Any]:
        """Returns the logarithms of the probabilities, and the rewards, of an episode."""
        speed = self.lib.zeros_like(position)
        logs, rewards = [], []
        for now in range(self.sizes.steps):
            drawn = (
                self.lib.rand(self.sizes.walkers, dtype=position.dtype) if uniform is None else uniform[now]
            )
            move, log = self.act(position, speed, drawn)
            speed = 0.5 * speed + move
            position = position + 0.3 * speed
            logs.append(log)
            rewards.append(-position.abs())
        return self.lib.stack(logs), self.lib.stack(rewards)


def make_reinforce(make: Maker, sizes: ReinforceSizes = SMALL) -> Training:
    policy = Policy(make, sizes)
    optimizer = Adam(make.lib, policy.network.parameters, rate=0.02)

    @make.compile
    def step(position: Any, uniform: Any = None) -> Any:
        optimizer.zero_grad()
        logs, rewards = policy.play(position, uniform)
        returns = rewards.flip(0).cumsum(0).flip(0)
        loss = -(logs * (returns - policy.baseline[:, None])).mean()
        policy.baseline.lerp_(returns.mean(1), 0.2)
        loss.backward()
        optimizer.step()
        return loss.detach(), rewards.sum(0).mean()

    return Training(step, [*policy.network.parameters, policy.baseline])


def draw_reinforce(random: np.random.Generator, sizes: ReinforceSizes = SMALL) -> Batches:
    while True:
        uniform = random.random((sizes.steps, sizes.walkers))
        yield {"position": random.normal(size=sizes.walkers), "uniform": uniform}
