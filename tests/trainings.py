"""Small trainings that tests interrupt, and the check that an interrupt of one leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import oplib
from oplib.autograd.graph import saved_tensors_hooks
from oplib.testing.leftovers import World
from oplib.utils.checkpoint import checkpoint
from tests.autograd.functions import Square
from tests.interrupts import find_leftovers, find_locks, find_taken, interrupt_everywhere

START = np.arange(6, dtype=np.float32).reshape(3, 2) / 7


class Training:
    """A small model, a step that trains it, and what the first step gives."""

    def __init__(self, forward: Callable[[Training], Any]) -> None:
        self.forward = forward
        self.weight = oplib.tensor(START, requires_grad=True)
        self.bias = oplib.zeros(2, requires_grad=True)
        self.data = oplib.ones(4, 3)
        for _ in range(2):  # an interrupt while JAX compiles can spoil caches of JAX, so all is compiled here
            forward(self).backward()
        self.first_step()
        self.expected = self.first_step()

    def first_step(self) -> Any:
        with oplib.no_grad():
            self.weight.copy_(oplib.tensor(START))
            self.bias.zero_()
        self.weight.grad = self.bias.grad = None
        return self.step(), self.weight.tolist(), self.bias.tolist()

    def step(self) -> float:
        loss = self.forward(self)
        loss.backward()
        self.update()
        return float(loss)

    @oplib.no_grad()
    def update(self) -> None:
        for parameter in (self.weight, self.bias):
            assert parameter.grad is not None
            parameter.sub_(parameter.grad * 0.1)
            parameter.grad = None

    def affine(self) -> Any:
        return self.data @ self.weight + self.bias


def forward_plain(training: Training) -> Any:
    return training.affine().tanh().sum()


def forward_function(training: Training) -> Any:
    return Square.apply(training.affine()).sum()


def forward_eager(training: Training) -> Any:
    return oplib.ops.interrupted.cube(training.affine()).sum()


def forward_hooks(training: Training) -> Any:
    result = training.affine()
    result.register_hook(lambda grad: grad * 2)
    return result.tanh().sum()


def forward_saved(training: Training) -> Any:
    with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        return forward_plain(training)


def forward_checkpoint(training: Training) -> Any:
    return checkpoint(lambda: training.affine().tanh(), use_reentrant=False).sum()


def forward_reentrant(training: Training) -> Any:
    return checkpoint(lambda x: x.tanh(), training.affine(), use_reentrant=True).sum()


FORWARDS = [
    forward_plain,
    forward_function,
    forward_eager,
    forward_hooks,
    forward_saved,
    forward_checkpoint,
    forward_reentrant,
]


def register_cube() -> Any:
    """Registers the op of ``forward_eager``."""

    @oplib.library.custom_op("interrupted::cube", mutates_args=(), compile=False)
    def cube(x: oplib.Tensor) -> oplib.Tensor:
        return x * x * x

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    cube.register_autograd(lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2, setup_context=setup)
    return cube


def check_interrupts(training: Training, *, step: int, first: int = 0) -> int:
    """Interrupts a step of the training at each place, or at every few, and returns at how many.

    Args:
        training: whose step is interrupted.
        step: 1 for each place; a greater number leaves places out.
        first: the number of the first place.
    """
    before, locks = World(), find_locks()
    count = 0
    for place in interrupt_everywhere(training.step, step=step, first=first):
        count += 1
        left = find_leftovers(before)
        before.restore()
        assert (place, left, find_taken(locks)) == (place, [], [])
        assert (place, training.first_step()) == (place, training.expected)
    return count
