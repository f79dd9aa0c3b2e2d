"""A perceptron whose parameters are updated inside the backward, each as soon as its gradient is there."""

from __future__ import annotations

from typing import Any

from tests.programs.mlp import SMALL, MLPSizes, Perceptron
from tests.programs.training import Maker, Training

RATE, DECAY = 0.05, 0.9


def make_hooked(make: Maker, sizes: MLPSizes = SMALL) -> Training:
    lib = make.lib
    model = Perceptron(make, sizes.widths, lib.tanh)
    velocities = {one: lib.zeros_like(one) for one in model.parameters}

    def update(parameter: Any) -> None:
        with lib.no_grad():
            velocity = velocities[parameter]
            velocity.mul_(DECAY).add_(parameter.grad)
            parameter.sub_(velocity, alpha=RATE)
        parameter.grad = None

    for one in model.parameters:
        one.register_post_accumulate_grad_hook(update)

    @make.compile
    def step(x: Any, y: Any) -> Any:
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        return loss.detach()

    return Training(step, [*model.parameters, *velocities.values()])
