"""Forward mode together with the tape: the same on torch and on oplib."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import plain
from .duals import Level, T, X, in_level
from .programs import Programs

TAPE = Programs()


@TAPE.add
def tangent_by_both(level: Level) -> Any:
    x, t = (level.lib.tensor(value, requires_grad=True) for value in (X, T))
    _, tangent = level.ad.unpack_dual((level.ad.make_dual(x, t) ** 3).sum())
    return level.lib.autograd.grad(tangent, (x, t))


@TAPE.add
def gradient(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    y = (level.ad.make_dual(x, level.lib.tensor(T)) ** 3).sum()
    return level.read(*level.lib.autograd.grad(y, x))


@TAPE.add
def recorded_gradient(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    y = (level.ad.make_dual(x, level.lib.tensor(T)).exp() * 2).sum()
    (found,) = level.lib.autograd.grad(y, x, create_graph=True)
    tangent = level.ad.unpack_dual(found).tangent
    return level.read(found.detach()), tangent, level.lib.autograd.grad(tangent.sum(), x)


@TAPE.add
def batched_gradient(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    y = level.ad.make_dual(x, level.lib.tensor(T)) ** 3
    return level.read(*level.lib.autograd.grad(y, x, level.lib.eye(2), is_grads_batched=True))


@TAPE.add
def dual_cotangent(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    return level.read(*level.lib.autograd.grad(x * x, x, level.dual()))


@TAPE.add
def stored_gradients(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    seen: list[Any] = []
    for _ in range(3):
        dual = level.ad.make_dual(x, level.lib.tensor(T))
        dual.retain_grad()
        dual.register_hook(lambda grad: seen.append(plain(level.read(grad))))
        (dual**3).sum().backward()
        seen.append(plain(level.read(x.grad, dual.grad)))
    return seen


@TAPE.add
def stored_recorded_gradient(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    (level.ad.make_dual(x, level.lib.tensor(T)) ** 3).sum().backward(create_graph=True)
    found = level.ad.unpack_dual(x.grad)
    return found.primal.detach(), found.tangent.detach()


@TAPE.add
def flags(level: Level) -> Any:
    dual = level.dual(grad=True)
    primal, tangent = level.ad.unpack_dual(dual * 2)
    plain = level.dual()
    return (
        dual.requires_grad,
        dual.is_leaf,
        primal.requires_grad,
        tangent.requires_grad,
        plain.is_leaf,
        plain.requires_grad_().requires_grad,
        level.read(plain.detach()),
    )


@pytest.mark.parametrize("name", TAPE)
def test_together_with_the_tape_it_is_the_same(assert_agrees: Any, name: str) -> None:
    assert_agrees(in_level(TAPE[name]))
