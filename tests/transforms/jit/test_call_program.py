"""A call of a program leaves what the function leaves; nothing that is still read is donated."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from tests.transforms.jit.worlds import World, assert_same


def train(world: World, x: oplib.Tensor) -> oplib.Tensor:
    loss = (world.leaf * x).sum()
    loss.backward()
    with oplib.no_grad():
        world.leaf.sub_(world.leaf.grad, alpha=0.5)
    return loss.detach()


def exchange(world: World, x: oplib.Tensor) -> oplib.Tensor:
    world.plain, world.base = world.base, world.plain
    return world.plain + x


def write_both(world: World, x: oplib.Tensor) -> oplib.Tensor:
    world.row.add_(1)
    world.whole.mul_(x)
    return world.base[1]


def keep(world: World, x: oplib.Tensor) -> tuple[Any, ...]:
    before, world.kept = world.kept, x * 2
    return before, world.kept, world.kept.view(3, 2)


def draw(world: World, x: oplib.Tensor) -> oplib.Tensor:
    generator = oplib.Generator().manual_seed(7)
    world.plain.add_(oplib.rand(2, 3, generator=generator))
    return x + oplib.randn(2, 3, generator=generator)


def turn(world: World, x: oplib.Tensor) -> oplib.Tensor:
    world.plain.data = x.t().contiguous()
    return world.plain * 2


def switch(world: World, x: oplib.Tensor) -> oplib.Tensor:
    world.other.requires_grad_(not world.other.requires_grad)
    return x.clone()


def clear(world: World, x: oplib.Tensor) -> None:
    world.leaf.grad = None
    world.plain.grad = x.clone()


FUNCTIONS: dict[str, Callable[[World, oplib.Tensor], Any]] = {
    "computes": lambda world, x: world.plain * x + world.leaf.detach(),
    "returns nothing": lambda world, x: None,
    "returns its argument": lambda world, x: x,
    "returns what it captures": lambda world, x: (world.plain, world.row, x, world.plain),
    "returns one result twice": lambda world, x: (y := x + 1, y, y.view(6)),
    "returns a view": lambda world, x: (x[0], world.plain.t(), world.base.view(3, 2)),
    "writes its argument": lambda world, x: x.add_(1),
    "writes and returns": lambda world, x: (world.plain.add_(x), world.plain, x * world.plain),
    "writes what it read": lambda world, x: (world.plain.clone(), world.plain.mul_(2)),
    "writes one into another": lambda world, x: world.other.copy_(world.plain.add_(x).t()),
    "writes nothing new": lambda world, x: world.plain.copy_(world.plain),
    "writes views": write_both,
    "writes data": lambda world, x: world.plain.data.add_(x),
    "writes a detached leaf": lambda world, x: world.leaf.detach().mul_(x),
    "keeps": keep,
    "exchanges": exchange,
    "draws": draw,
    "turns": turn,
    "switches requires_grad": switch,
    "clears and sets grads": clear,
    "trains": train,
    "records": lambda world, x: (world.leaf * x, (world.leaf**2).sum()),
    "records a write": lambda world, x: world.base.mul_(world.leaf),
    "records beside a write": lambda world, x: (world.plain.add_(1), world.leaf * world.plain.clone()),
    "writes a gradient": lambda world, x: world.leaf.grad.add_(x),  # pyright: ignore[reportOptionalMemberAccess]
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_call_leaves_what_the_function_leaves(name: str) -> None:
    assert_same(FUNCTIONS[name])


@pytest.mark.parametrize("name", ["records", "records a write", "records beside a write"])
def test_what_was_recorded_is_differentiated_after_the_call(name: str) -> None:
    def differentiate(world: World, result: Any) -> None:
        results = result if isinstance(result, tuple) else (result,)
        loss = functools.reduce(oplib.add, [(one * one).sum() for one in results])
        (grad,) = oplib.autograd.grad(loss, world.leaf, create_graph=True)
        (grad * grad).sum().backward()
        world.base = world.base.detach()

    assert_same(FUNCTIONS[name], differentiate)


@pytest.mark.parametrize("donate", [True, False])
def test_a_buffer_is_used_again_where_nobody_has_read_it(donate: bool) -> None:
    tensor = oplib.zeros(1 << 12)
    step = oplib.jit(lambda: tensor.add_(1), donate=donate)
    for _ in range(3):
        step()
    assert step.lower().as_text().count("tf.aliasing_output") == donate
    assert tensor[5].item() == 3.0


def test_a_program_with_a_callback_donates_nothing() -> None:
    tensor = oplib.zeros(3)

    def step() -> None:
        value = jax.pure_callback(np.cos, jax.ShapeDtypeStruct((3,), np.float32), tensor.array)
        tensor.copy_(oplib.Tensor.from_array(value))

    program = oplib.jit(step)
    program()
    np.testing.assert_allclose(tensor.numpy(), np.ones(3))
    program()
    np.testing.assert_allclose(tensor.numpy(), np.cos(np.ones(3)), rtol=1e-6)
    assert "aliasing_output" not in program.lower().as_text()
