"""Writing duals, and writing them into others: the same tangents on torch and on oplib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .duals import Level, T, X, in_level
from .programs import Programs


def write_dual(level: Level, write: Callable[[Any], Any]) -> Any:
    x, t = level.lib.tensor(X), level.lib.tensor(T)
    dual = level.ad.make_dual(x, t)
    returned = write(dual)
    tangent = level.ad.unpack_dual(dual).tangent
    return level.read(dual, x), returned is dual, tangent is t, t


# Not here: ``d.mul_(d)``, of which torch's tangent is wrong (it reads the tangent that it has just scaled).
WRITES: dict[str, Callable[[Any], Any]] = {
    "mul_ by a number": lambda d: d.mul_(2),
    "mul_ by a tensor": lambda d: d.mul_(d.detach() * 2),
    "add_ a constant": lambda d: d.add_(1),
    "exp_": lambda d: d.exp_(),
    "zero_": lambda d: d.zero_(),
    "fill_": lambda d: d.fill_(3.0),
    "copy_ a constant": lambda d: d.copy_(d.detach() * 5),
    "two writes": lambda d: d.mul_(2).add_(d),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_a_dual_gives_the_same_tangent_in_the_same_tensor(assert_agrees: Any, name: str) -> None:
    assert_agrees(in_level(lambda level: write_dual(level, WRITES[name])))


MORE_WRITES = Programs()


@MORE_WRITES.add
def write_without_grad(level: Level) -> Any:
    with level.lib.no_grad():
        return write_dual(level, lambda d: d.mul_(2))


@MORE_WRITES.add
def into_plain(level: Level) -> Any:
    y = level.zeros(2)
    y.add_(level.dual())
    return level.read(y)


@MORE_WRITES.add
def into_a_part(level: Level) -> Any:
    y = level.zeros(2, 2)
    y[0] = level.dual()
    return level.read(y)


@MORE_WRITES.add
def into_another_dtype(level: Level) -> Any:
    half, whole = level.zeros(2).to(level.lib.float16), level.zeros(2).to(level.lib.int32)
    half.copy_(level.dual())
    whole.copy_(level.dual())
    return level.ad.unpack_dual(half).tangent.tolist(), level.read(whole)


@MORE_WRITES.add
def under_a_dual(level: Level) -> Any:
    x = level.lib.tensor(X)
    dual = level.ad.make_dual(x, level.lib.tensor(T))
    x.mul_(2)
    return level.read(x, dual)


@MORE_WRITES.add
def the_tangent_itself(level: Level) -> Any:
    t = level.lib.tensor(T)
    dual = level.ad.make_dual(level.lib.tensor(X), t)
    t.mul_(100)
    return level.read(dual)


@MORE_WRITES.add
def a_tangent_that_requires_grad(level: Level) -> Any:
    return level.dual(tangent_grad=True).mul_(2)


@pytest.mark.parametrize("name", MORE_WRITES)
def test_writes_agree(assert_agrees: Any, name: str) -> None:
    assert_agrees(in_level(MORE_WRITES[name]))
