"""A training step of an MLP, written once for one device, a mesh, and several processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import oplib
import oplib.nn.functional as F

STEPS = 3
ROWS, WIDTH, HIDDEN, CLASSES = 16, 8, 32, 4
Place = Callable[[str, Any], jax.Array]


def draw_arrays() -> dict[str, Any]:
    """Draws the parameters and the data, the same in each process."""
    rng = np.random.default_rng(0)
    shapes = {"x": (ROWS, WIDTH), "first": (HIDDEN, WIDTH), "bias": (HIDDEN,), "second": (CLASSES, HIDDEN)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return {**arrays, "y": rng.integers(0, CLASSES, ROWS)}


class Training:
    """Parameters, their momenta, and the step.

    Args:
        place: puts an array on devices by its name.
    """

    def __init__(self, place: Place) -> None:
        tensors = {name: oplib.Tensor.from_array(place(name, one)) for name, one in draw_arrays().items()}
        self.x, self.y = tensors.pop("x"), tensors.pop("y")
        self.parameters = {name: one.requires_grad_() for name, one in tensors.items()}
        self.momenta = {name: oplib.zeros_like(one) for name, one in tensors.items()}
        self.step = oplib.jit(self.run)

    def run(self, x: oplib.Tensor, y: oplib.Tensor) -> oplib.Tensor:
        """Runs one step, and returns its loss."""
        at = self.parameters
        for parameter in at.values():
            parameter.grad = None
        hidden = F.relu(F.linear(x, at["first"], at["bias"]))
        loss = F.cross_entropy(F.linear(hidden, at["second"]), y)
        loss.backward()
        with oplib.no_grad():
            for name, parameter in at.items():
                self.momenta[name].mul_(0.9).add_(parameter.grad)
                parameter.sub_(self.momenta[name], alpha=0.1)
        return loss.detach()

    def train(self) -> list[float]:
        """Runs all steps, and returns their losses."""
        return [self.step(self.x, self.y).item() for _ in range(STEPS)]
