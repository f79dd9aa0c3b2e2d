"""Optimizers written by hand, on oplib or torch, that keep their state in Tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Optimizer:
    """Holds parameters.

    Args:
        lib: oplib or torch.
        parameters: to be optimized.
    """

    def __init__(self, lib: Any, parameters: Iterable[Any]) -> None:
        self.lib = lib
        self.parameters = list(parameters)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        with self.lib.no_grad():
            self.update()

    def update(self) -> None:
        raise NotImplementedError


class Momentum(Optimizer):
    """Gradient descent with momentum; its state is a dictionary with the parameters as keys."""

    def __init__(self, lib: Any, parameters: Iterable[Any], rate: float, decay: float = 0.9) -> None:
        super().__init__(lib, parameters)
        self.rate = rate
        self.decay = decay
        self.state = {one: {"velocity": lib.zeros_like(one)} for one in self.parameters}

    def update(self) -> None:
        for parameter in self.parameters:
            velocity = self.state[parameter]["velocity"]
            velocity.mul_(self.decay).add_(parameter.grad)
            parameter.sub_(velocity, alpha=self.rate)


class Adam(Optimizer):
    """Adam; the number of steps is a Tensor, because a compiled step cannot change a Python number."""

    def __init__(
        self, lib: Any, parameters: Iterable[Any], rate: float, betas: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        super().__init__(lib, parameters)
        self.rate, self.betas = rate, betas
        self.count = lib.zeros((), dtype=self.parameters[0].dtype)
        self.first = [lib.zeros_like(one) for one in self.parameters]
        self.second = [lib.zeros_like(one) for one in self.parameters]

    def update(self) -> None:
        self.count += 1
        weights = [1 - beta**self.count for beta in self.betas]
        for parameter, first, second in zip(self.parameters, self.first, self.second, strict=True):
            gradient = parameter.grad
            first.lerp_(gradient, 1 - self.betas[0])
            second.mul_(self.betas[1]).addcmul_(gradient, gradient, value=1 - self.betas[1])
            scale = (second / weights[1]).sqrt_().add_(1e-8)
            parameter.addcdiv_(first / weights[0], scale, value=-self.rate)
