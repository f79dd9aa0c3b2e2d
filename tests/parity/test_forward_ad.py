"""Forward mode on torch and on oplib: the same programs, tangents and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .duals import Level, T, X, in_level
from .programs import Programs

# Ops --------------------------------------------------------------------------------------------------------

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda lib, d: d + 1,
    "add itself": lambda lib, d: d + d,
    "reversed sub": lambda lib, d: 1 - d,
    "mul": lambda lib, d: d * lib.tensor(T),
    "div": lambda lib, d: 1 / d,
    "pow": lambda lib, d: d**3,
    "neg": lambda lib, d: -d,
    "exp": lambda lib, d: d.exp(),
    "log": lambda lib, d: d.log(),
    "sqrt": lambda lib, d: d.sqrt(),
    "sin and cos": lambda lib, d: d.sin() * d.cos(),
    "tanh": lambda lib, d: d.tanh(),
    "sigmoid": lambda lib, d: d.sigmoid(),
    "relu": lambda lib, d: (d - 1.5).relu(),
    "abs": lambda lib, d: (d - 1.5).abs(),
    "matmul": lambda lib, d: d @ d,
    "sum": lambda lib, d: d.sum(),
    "mean": lambda lib, d: d.mean(),
    "max": lambda lib, d: d.max(),
    "max over a dim": lambda lib, d: d.max(0)[0],
    "its index": lambda lib, d: d.max(0)[1],
    "reshape": lambda lib, d: d.reshape(2, 1),
    "transpose": lambda lib, d: d.reshape(2, 1).t(),
    "expand": lambda lib, d: d.expand(3, 2),
    "unsqueeze": lambda lib, d: d.unsqueeze(0),
    "item": lambda lib, d: d[1],
    "slice": lambda lib, d: d[1:],
    "nothing of it": lambda lib, d: d[2:],
    "cat": lambda lib, d: lib.cat([d, lib.tensor(X)]),
    "stack": lambda lib, d: lib.stack([lib.tensor(X), d]),
    "where": lambda lib, d: lib.where(d > 1, d, lib.tensor(0.0)),
    "clone": lambda lib, d: d.clone(),
    "detach": lambda lib, d: d.detach(),
    "comparison": lambda lib, d: d > 1,
    "to itself": lambda lib, d: d.to(lib.float32),
    "to half": lambda lib, d: d.to(lib.float16),
    "to integers": lambda lib, d: d.to(lib.int32),
    "zeros_like": lambda lib, d: lib.zeros_like(d),
    "ones_like": lambda lib, d: lib.ones_like(d),
    "full_like": lambda lib, d: lib.full_like(d, 2.0),
    "new_zeros": lambda lib, d: d.new_zeros(2),
    "no tangent": lambda lib, d: lib.tensor(X) * 2,
    "as_tensor": lambda lib, d: lib.as_tensor(d),
}


@pytest.mark.parametrize("name", OPS)
def test_ops_carry_the_same_tangents(assert_agrees: Any, name: str) -> None:
    assert_agrees(in_level(lambda level: level.read(OPS[name](level.lib, level.dual()))))


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "square": lambda z: z * z,
    "a constant factor": lambda z: z * (1 + 2j),
    "abs": lambda z: z.abs(),
    "exp": lambda z: z.exp(),
    "quotient": lambda z: 1 / z,
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_tangents_are_the_same(assert_agrees: Any, name: str) -> None:
    def program(level: Level) -> Any:
        z, t = level.lib.tensor([3 + 4j, 1 - 1j]), level.lib.tensor([1 + 1j, 2 - 0.5j])
        _, tangent = level.ad.unpack_dual(COMPLEX[name](level.ad.make_dual(z, t)))
        return (tangent * (0.5 - 1j)).abs().tolist()

    assert_agrees(in_level(program))


# Modes ------------------------------------------------------------------------------------------------------


MODES = Programs()


@MODES.add
def without_grad(level: Level) -> Any:
    with level.lib.no_grad():
        return level.read(level.dual() * 2)


@MODES.add
def in_inference_mode(level: Level) -> Any:
    with level.lib.inference_mode():
        return level.read(level.dual() * 2)


@MODES.add
def switched_off(level: Level) -> Any:
    dual = level.dual()
    with level.ad._set_fwd_grad_enabled(False):
        inside = [level.read(dual, dual * 2), level.ad._is_fwd_grad_enabled()]
        made = level.dual()
    return inside, level.read(dual, made), level.ad._is_fwd_grad_enabled()


@MODES.add
def same_tensor(level: Level) -> Any:
    x = level.lib.tensor(X)
    return level.read(level.ad.make_dual(x, x))


@MODES.add
def identity(level: Level) -> Any:
    x, t = level.lib.tensor(X), level.lib.tensor(T)
    primal, tangent = level.ad.unpack_dual(level.ad.make_dual(x, t))
    plain = level.ad.unpack_dual(x)
    return tangent is t, primal is x, plain.primal is x, plain.tangent, level.read(primal)


@MODES.add
def of_another_dtype(level: Level) -> Any:
    t = level.lib.tensor(T).to(level.lib.float16)
    kept = level.ad.unpack_dual(level.ad.make_dual(level.lib.tensor(X), t)).tangent
    return kept is t


@MODES.add
def shown(level: Level) -> Any:
    return repr(level.dual())


@pytest.mark.parametrize("name", MODES)
def test_modes_and_identities_are_the_same(assert_agrees: Any, name: str) -> None:
    assert_agrees(in_level(MODES[name]))


def test_leaving_the_level_takes_the_tangents_away(assert_agrees: Any) -> None:
    def program(lib: Any) -> Any:
        level = Level(lib)
        with level.ad.dual_level() as number:
            dual = level.dual()
        outside = level.ad.unpack_dual(dual)
        with level.ad.dual_level():
            return number, outside.primal is dual, outside.tangent, level.read(dual), repr(dual)

    assert_agrees(program)


def test_a_decorated_function_has_a_level(assert_agrees: Any) -> None:
    def program(lib: Any) -> Any:
        level = Level(lib)
        return level.ad.dual_level()(lambda: level.read(level.dual() * 2))()

    assert_agrees(program)


# Refusals ---------------------------------------------------------------------------------------------------


def make(level: Level, x: Any, t: Any, **options: Any) -> Any:
    return level.read(level.ad.make_dual(level.lib.tensor(x), level.lib.tensor(t), **options))


REFUSED: dict[str, Callable[[Level], Any]] = {
    "nested": lambda level: level.ad.enter_dual_level(),
    "another level left": lambda level: level.ad.exit_dual_level(level=5),
    "integers": lambda level: make(level, [1], T),
    "integer tangents": lambda level: make(level, X, [1, 2]),
    "another size": lambda level: make(level, X, [1.0]),
    "another level": lambda level: make(level, X, T, level=1),
    "this level": lambda level: make(level, X, T, level=0),
    "a dual primal": lambda level: level.ad.make_dual(level.dual(), level.lib.tensor(T)),
    "a dual tangent": lambda level: level.ad.make_dual(level.lib.tensor(X), level.dual()),
    "unpacking another level": lambda level: level.ad.unpack_dual(level.dual(), level=1),
    "unpacking no tensor": lambda level: level.ad.unpack_dual(1.0),
    "unpacking level -1": lambda level: level.read(level.ad.unpack_dual(level.dual(), level=-1)[0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_in_a_level_are_of_the_same_kind(assert_agrees: Any, name: str) -> None:
    assert_agrees(in_level(REFUSED[name]))


OUTSIDE: dict[str, Callable[[Level], Any]] = {
    "leaving": lambda level: level.ad.exit_dual_level(),
    "making": lambda level: make(level, X, T),
    "making in level 0": lambda level: make(level, X, T, level=0),
    "unpacking": lambda level: level.read(level.lib.tensor(X)),
    "unpacking level 0": lambda level: level.ad.unpack_dual(level.lib.tensor(X), level=0),
    "entering and leaving": lambda level: (level.ad.enter_dual_level(), level.ad.exit_dual_level()),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_of_a_level_it_is_the_same(assert_agrees: Any, name: str) -> None:
    assert_agrees(lambda lib: OUTSIDE[name](Level(lib)))
