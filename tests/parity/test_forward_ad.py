"""Forward mode on torch and on oplib: the same programs, tangents and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import plain

X, T = [1.0, 2.0], [3.0, 4.0]


class Level:
    """What a program in an open dual level needs.

    Args:
        lib: torch or oplib.
    """

    def __init__(self, lib: Any) -> None:
        self.lib = lib
        self.ad = lib.autograd.forward_ad

    def dual(self, *, grad: bool = False, tangent_grad: bool = False) -> Any:
        x = self.lib.tensor(X, requires_grad=grad)
        return self.ad.make_dual(x, self.lib.tensor(T, requires_grad=tangent_grad))

    def read(self, *tensors: Any) -> list[Any]:
        return [self.ad.unpack_dual(tensor) for tensor in tensors]

    def zeros(self, *sizes: int) -> Any:
        return self.lib.zeros(*sizes)


def in_level(program: Callable[[Level], Any]) -> Callable[[Any], Any]:
    def run(lib: Any) -> Any:
        level = Level(lib)
        with level.ad.dual_level():
            return program(level)

    return run


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
def test_ops_carry_the_same_tangents(agree: Any, name: str) -> None:
    agree(in_level(lambda level: level.read(OPS[name](level.lib, level.dual()))))


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "square": lambda z: z * z,
    "a constant factor": lambda z: z * (1 + 2j),
    "abs": lambda z: z.abs(),
    "exp": lambda z: z.exp(),
    "quotient": lambda z: 1 / z,
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_tangents_are_the_same(agree: Any, name: str) -> None:
    def program(level: Level) -> Any:
        z, t = level.lib.tensor([3 + 4j, 1 - 1j]), level.lib.tensor([1 + 1j, 2 - 0.5j])
        _, tangent = level.ad.unpack_dual(COMPLEX[name](level.ad.make_dual(z, t)))
        return (tangent * (0.5 - 1j)).abs().tolist()

    agree(in_level(program))


# Modes ------------------------------------------------------------------------------------------------------


def without_grad(level: Level) -> Any:
    with level.lib.no_grad():
        return level.read(level.dual() * 2)


def in_inference_mode(level: Level) -> Any:
    with level.lib.inference_mode():
        return level.read(level.dual() * 2)


def switched_off(level: Level) -> Any:
    dual = level.dual()
    with level.ad._set_fwd_grad_enabled(False):
        inside = [level.read(dual, dual * 2), level.ad._is_fwd_grad_enabled()]
        made = level.dual()
    return inside, level.read(dual, made), level.ad._is_fwd_grad_enabled()


def same_tensor(level: Level) -> Any:
    x = level.lib.tensor(X)
    return level.read(level.ad.make_dual(x, x))


def identity(level: Level) -> Any:
    x, t = level.lib.tensor(X), level.lib.tensor(T)
    primal, tangent = level.ad.unpack_dual(level.ad.make_dual(x, t))
    plain = level.ad.unpack_dual(x)
    return tangent is t, primal is x, plain.primal is x, plain.tangent, level.read(primal)


def of_another_dtype(level: Level) -> Any:
    t = level.lib.tensor(T).to(level.lib.float16)
    kept = level.ad.unpack_dual(level.ad.make_dual(level.lib.tensor(X), t)).tangent
    return kept is t


def shown(level: Level) -> Any:
    return repr(level.dual())


MODES = [without_grad, in_inference_mode, switched_off, same_tensor, identity, of_another_dtype, shown]


@pytest.mark.parametrize("program", MODES, ids=lambda program: program.__name__)
def test_modes_and_identities_are_the_same(agree: Any, program: Any) -> None:
    agree(in_level(program))


def test_leaving_the_level_takes_the_tangents_away(agree: Any) -> None:
    def program(lib: Any) -> Any:
        level = Level(lib)
        with level.ad.dual_level() as number:
            dual = level.dual()
        outside = level.ad.unpack_dual(dual)
        with level.ad.dual_level():
            return number, outside.primal is dual, outside.tangent, level.read(dual), repr(dual)

    agree(program)


def test_a_decorated_function_has_a_level(agree: Any) -> None:
    def program(lib: Any) -> Any:
        level = Level(lib)
        return level.ad.dual_level()(lambda: level.read(level.dual() * 2))()

    agree(program)


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
def test_refusals_in_a_level_are_of_the_same_kind(agree: Any, name: str) -> None:
    agree(in_level(REFUSED[name]))


OUTSIDE: dict[str, Callable[[Level], Any]] = {
    "leaving": lambda level: level.ad.exit_dual_level(),
    "making": lambda level: make(level, X, T),
    "making in level 0": lambda level: make(level, X, T, level=0),
    "unpacking": lambda level: level.read(level.lib.tensor(X)),
    "unpacking level 0": lambda level: level.ad.unpack_dual(level.lib.tensor(X), level=0),
    "entering and leaving": lambda level: (level.ad.enter_dual_level(), level.ad.exit_dual_level()),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_of_a_level_it_is_the_same(agree: Any, name: str) -> None:
    agree(lambda lib: OUTSIDE[name](Level(lib)))


# In place ---------------------------------------------------------------------------------------------------


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
def test_writing_a_dual_gives_the_same_tangent_in_the_same_tensor(agree: Any, name: str) -> None:
    agree(in_level(lambda level: write_dual(level, WRITES[name])))


def write_without_grad(level: Level) -> Any:
    with level.lib.no_grad():
        return write_dual(level, lambda d: d.mul_(2))


def into_plain(level: Level) -> Any:
    y = level.zeros(2)
    y.add_(level.dual())
    return level.read(y)


def into_a_part(level: Level) -> Any:
    y = level.zeros(2, 2)
    y[0] = level.dual()
    return level.read(y)


def into_another_dtype(level: Level) -> Any:
    half, whole = level.zeros(2).to(level.lib.float16), level.zeros(2).to(level.lib.int32)
    half.copy_(level.dual())
    whole.copy_(level.dual())
    return level.ad.unpack_dual(half).tangent.tolist(), level.read(whole)


def under_a_dual(level: Level) -> Any:
    x = level.lib.tensor(X)
    dual = level.ad.make_dual(x, level.lib.tensor(T))
    x.mul_(2)
    return level.read(x, dual)


def the_tangent_itself(level: Level) -> Any:
    t = level.lib.tensor(T)
    dual = level.ad.make_dual(level.lib.tensor(X), t)
    t.mul_(100)
    return level.read(dual)


def a_tangent_that_requires_grad(level: Level) -> Any:
    return level.dual(tangent_grad=True).mul_(2)


MORE_WRITES = [
    write_without_grad,
    into_plain,
    into_a_part,
    into_another_dtype,
    under_a_dual,
    the_tangent_itself,
    a_tangent_that_requires_grad,
]


@pytest.mark.parametrize("program", MORE_WRITES, ids=lambda program: program.__name__)
def test_writes_agree(agree: Any, program: Any) -> None:
    agree(in_level(program))


# Views ------------------------------------------------------------------------------------------------------


def part_of_zeros(level: Level) -> Any:
    y = level.zeros(2, 2)
    part = y[0]
    part.copy_(level.dual())
    return level.read(part, y)


def part_sees_the_whole(level: Level) -> Any:
    y = level.zeros(2, 2)
    part = y[0]
    y.add_(level.dual())
    return level.read(part)


def writing_a_part(level: Level) -> Any:
    dual = level.dual()
    part = dual[0]
    part.mul_(10)
    return level.read(part, dual)


def writing_the_whole(level: Level) -> Any:
    dual = level.dual()
    part = dual[0]
    before = plain(level.read(part))
    dual.mul_(10)
    return before, level.read(part, dual)


def a_part_is_overwritten(level: Level) -> Any:
    dual = level.dual()
    dual[0].fill_(7.0)
    dual[1:] = dual[:1] * 2
    return level.read(dual)


def a_part_of_a_part(level: Level) -> Any:
    y = level.zeros(3, 2)
    y[1:][0].copy_(level.dual())
    return level.read(y, y[1], y[2])


def other_ways_to_look(level: Level) -> Any:
    y = level.zeros(2, 2)
    y.add_(level.dual())
    y.t()[0].mul_(2)
    y.diagonal().mul_(3)
    y.view(4)[1:3].add_(y.detach().clone().reshape(4)[:2])
    y.transpose(0, 1).unsqueeze(0).mul_(0.5)
    return level.read(y, y.t(), y.diagonal(), y.view(4), y.expand(2, 2, 2), y.permute(1, 0), y.unsqueeze(-1))


def parts_at_once(level: Level) -> Any:
    y = level.lib.stack([level.dual(), level.dual() * 2])
    return level.read(*y.unbind(), *y.split(1, 1), *y.chunk(2))


def a_detached_one_is_written(level: Level) -> Any:
    dual = level.dual()
    cut = dual.detach()
    cut.mul_(10)
    first = plain(level.read(cut, dual))
    dual.mul_(10)
    return first, level.read(cut, dual)


def a_dual_of_a_part(level: Level) -> Any:
    x = level.lib.tensor(X)
    part = x[:1]
    dual = level.ad.make_dual(part, level.lib.tensor(T[:1]))
    first = plain(level.read(dual, part, x))
    dual.mul_(3)
    return first, level.read(dual, part, x)


def the_primal_of_a_result(level: Level) -> Any:
    y = level.dual(grad=True) * 2
    primal = level.ad.unpack_dual(y).primal
    seen = plain([one.detach() if one is not None else None for one in level.ad.unpack_dual(primal)])
    return seen, primal.requires_grad


def the_data_of_a_dual(level: Level) -> Any:
    dual = level.dual()
    return level.read(dual.data)


def data_put_into_a_dual(level: Level) -> Any:
    dual = level.dual()
    dual.data = level.lib.tensor([9.0, 9.0])
    return level.read(dual)


def detached_in_place(level: Level) -> Any:
    dual = level.dual() * 1
    dual.detach_()
    return level.read(dual)


def real_parts(level: Level) -> Any:
    z, t = level.lib.tensor([1 + 2j]), level.lib.tensor([3 + 4j])
    dual = level.ad.make_dual(z, t) * 1
    before = plain(level.read(dual.real, dual.imag))
    dual.real.mul_(2)
    tangent = level.ad.unpack_dual(dual).tangent
    return before, level.read(dual.real, dual.imag), tangent.abs().tolist()


def a_leaf_is_written(level: Level) -> Any:
    return level.dual(grad=True).mul_(2)


def shapes_in_place(level: Level) -> Any:
    y = level.dual() * level.lib.ones(2, 1)
    y.t_()
    first = plain(level.read(y))
    y.unsqueeze_(0)
    second = plain(level.read(y))
    y.squeeze_()
    return first, second, level.read(y)


def gradients_through_parts(level: Level) -> Any:
    x, t = (level.lib.tensor(value, requires_grad=True) for value in (X, T))
    y = level.ad.make_dual(x, t) * 1
    part = y[0]
    part.mul_(part.detach() * 3)
    y[1:] = y[:1].clone() * y[1:].clone()
    loss = (y * y).sum()
    (found,) = level.lib.autograd.grad(loss, x, retain_graph=True)
    tangent = level.ad.unpack_dual(loss).tangent
    return level.read(found), level.lib.autograd.grad(tangent, (x, t))


def a_part_of_a_dual_that_requires_grad(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True) * 1
    dual = level.ad.make_dual(x, level.lib.tensor(T))
    part = dual[1:][0]
    first = [level.ad.unpack_dual(one).tangent for one in (part, dual, x, x[0])]
    with level.lib.no_grad():
        part.mul_(10)
    return first, [level.ad.unpack_dual(one).tangent for one in (part, dual, x, x[1])]


def a_part_of_a_primal(level: Level) -> Any:
    primal = level.ad.unpack_dual(level.dual(grad=True) * 2).primal
    return level.ad.unpack_dual(primal[0]).tangent, level.ad.unpack_dual(primal.detach()[0]).tangent


def a_dual_written_into_a_primal(level: Level) -> Any:
    dual = level.dual()
    primal = level.ad.unpack_dual(dual).primal
    primal.add_(level.dual())
    return level.read(primal, dual)


def random_numbers_in_place(level: Level) -> Any:
    dual = level.dual()
    dual.uniform_()
    return level.ad.unpack_dual(dual).tangent


VIEWS = [
    part_of_zeros,
    part_sees_the_whole,
    writing_a_part,
    writing_the_whole,
    a_part_is_overwritten,
    a_part_of_a_part,
    other_ways_to_look,
    parts_at_once,
    a_detached_one_is_written,
    a_dual_of_a_part,
    the_primal_of_a_result,
    the_data_of_a_dual,
    data_put_into_a_dual,
    detached_in_place,
    real_parts,
    a_leaf_is_written,
    shapes_in_place,
    gradients_through_parts,
    a_part_of_a_dual_that_requires_grad,
    a_part_of_a_primal,
    a_dual_written_into_a_primal,
    random_numbers_in_place,
]


@pytest.mark.parametrize("program", VIEWS, ids=lambda program: program.__name__)
def test_views_share_tangents_alike(agree: Any, program: Any) -> None:
    agree(in_level(program))


# With the tape ----------------------------------------------------------------------------------------------


def tangent_by_both(level: Level) -> Any:
    x, t = (level.lib.tensor(value, requires_grad=True) for value in (X, T))
    _, tangent = level.ad.unpack_dual((level.ad.make_dual(x, t) ** 3).sum())
    return level.lib.autograd.grad(tangent, (x, t))


def gradient(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    y = (level.ad.make_dual(x, level.lib.tensor(T)) ** 3).sum()
    return level.read(*level.lib.autograd.grad(y, x))


def recorded_gradient(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    y = (level.ad.make_dual(x, level.lib.tensor(T)).exp() * 2).sum()
    (found,) = level.lib.autograd.grad(y, x, create_graph=True)
    tangent = level.ad.unpack_dual(found).tangent
    return level.read(found.detach()), tangent, level.lib.autograd.grad(tangent.sum(), x)


def batched_gradient(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    y = level.ad.make_dual(x, level.lib.tensor(T)) ** 3
    return level.read(*level.lib.autograd.grad(y, x, level.lib.eye(2), is_grads_batched=True))


def dual_cotangent(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    return level.read(*level.lib.autograd.grad(x * x, x, level.dual()))


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


def stored_recorded_gradient(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True)
    (level.ad.make_dual(x, level.lib.tensor(T)) ** 3).sum().backward(create_graph=True)
    found = level.ad.unpack_dual(x.grad)
    return found.primal.detach(), found.tangent.detach()


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


TAPE = [
    tangent_by_both,
    gradient,
    recorded_gradient,
    batched_gradient,
    dual_cotangent,
    stored_gradients,
    stored_recorded_gradient,
    flags,
]


@pytest.mark.parametrize("program", TAPE, ids=lambda program: program.__name__)
def test_together_with_the_tape_it_is_the_same(agree: Any, program: Any) -> None:
    agree(in_level(program))
