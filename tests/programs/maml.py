"""Model-agnostic meta-learning of sine waves, with second derivatives."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tests.programs.optimizers import Momentum
from tests.programs.training import Batches, Maker, Training


class MAMLSizes(NamedTuple):
    """The hidden units, the tasks of a step, and the examples of a task."""

    hidden: int = 16
    tasks: int = 3
    examples: int = 8


SMALL = MAMLSizes()


def predict(weights: list[Any], x: Any) -> Any:
    for weight, bias in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        x = (x @ weight + bias).tanh()
    return x @ weights[-2] + weights[-1]


def measure(weights: list[Any], x: Any, y: Any) -> Any:
    return ((predict(weights, x) - y) ** 2).mean()


def adapt(weights: list[Any], x: Any, y: Any, *, lib: Any, rate: float, steps: int) -> list[Any]:
    """Gradient descent on one task, whose steps can be differentiated."""
    for _ in range(steps):
        gradients = lib.autograd.grad(measure(weights, x, y), weights, create_graph=True)
        weights = [weight - rate * one for weight, one in zip(weights, gradients, strict=True)]
    return weights


def make_maml(make: Maker, sizes: MAMLSizes = SMALL) -> Training:
    hidden = sizes.hidden
    shapes = [(1, hidden), (hidden,), (hidden, hidden), (hidden,), (hidden, 1), (1,)]
    weights = [make.parameter(*shape, scale=0.4) for shape in shapes]
    optimizer = Momentum(make.lib, weights, rate=0.02)
    adapt_here = partial(adapt, weights, lib=make.lib, rate=0.05, steps=2)

    @make.compile
    def step(x: Any, y: Any, new_x: Any, new_y: Any) -> Any:
        optimizer.zero_grad()
        tasks = zip(x, y, new_x, new_y, strict=True)
        losses = [measure(adapt_here(one, target), query, answer) for one, target, query, answer in tasks]
        loss = sum(losses) / len(losses)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Training(step, weights)


def draw_maml(random: np.random.Generator, sizes: MAMLSizes = SMALL) -> Batches:
    _, tasks, examples = sizes
    while True:
        height, phase = random.uniform(0.5, 2, (tasks, 1, 1)), random.uniform(0, 3, (tasks, 1, 1))
        x, new_x = random.uniform(-3, 3, (2, tasks, examples, 1))
        yield {
            "x": x,
            "y": height * np.sin(x + phase),
            "new_x": new_x,
            "new_y": height * np.sin(new_x + phase),
        }
