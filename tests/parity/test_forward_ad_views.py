"""Views and their tangents in forward mode: the same on torch and on oplib."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import plain
from .duals import Level, T, X, in_level
from .programs import Programs

VIEWS = Programs()


@VIEWS.add
def part_of_zeros(level: Level) -> Any:
    y = level.zeros(2, 2)
    part = y[0]
    part.copy_(level.dual())
    return level.read(part, y)


@VIEWS.add
def part_sees_the_whole(level: Level) -> Any:
    y = level.zeros(2, 2)
    part = y[0]
    y.add_(level.dual())
    return level.read(part)


@VIEWS.add
def writing_a_part(level: Level) -> Any:
    dual = level.dual()
    part = dual[0]
    part.mul_(10)
    return level.read(part, dual)


@VIEWS.add
def writing_the_whole(level: Level) -> Any:
    dual = level.dual()
    part = dual[0]
    before = plain(level.read(part))
    dual.mul_(10)
    return before, level.read(part, dual)


@VIEWS.add
def a_part_is_overwritten(level: Level) -> Any:
    dual = level.dual()
    dual[0].fill_(7.0)
    dual[1:] = dual[:1] * 2
    return level.read(dual)


@VIEWS.add
def a_part_of_a_part(level: Level) -> Any:
    y = level.zeros(3, 2)
    y[1:][0].copy_(level.dual())
    return level.read(y, y[1], y[2])


@VIEWS.add
def other_ways_to_look(level: Level) -> Any:
    y = level.zeros(2, 2)
    y.add_(level.dual())
    y.t()[0].mul_(2)
    y.diagonal().mul_(3)
    y.view(4)[1:3].add_(y.detach().clone().reshape(4)[:2])
    y.transpose(0, 1).unsqueeze(0).mul_(0.5)
    return level.read(y, y.t(), y.diagonal(), y.view(4), y.expand(2, 2, 2), y.permute(1, 0), y.unsqueeze(-1))


@VIEWS.add
def parts_at_once(level: Level) -> Any:
    y = level.lib.stack([level.dual(), level.dual() * 2])
    return level.read(*y.unbind(), *y.split(1, 1), *y.chunk(2))


@VIEWS.add
def a_detached_one_is_written(level: Level) -> Any:
    dual = level.dual()
    cut = dual.detach()
    cut.mul_(10)
    first = plain(level.read(cut, dual))
    dual.mul_(10)
    return first, level.read(cut, dual)


@VIEWS.add
def a_dual_of_a_part(level: Level) -> Any:
    x = level.lib.tensor(X)
    part = x[:1]
    dual = level.ad.make_dual(part, level.lib.tensor(T[:1]))
    first = plain(level.read(dual, part, x))
    dual.mul_(3)
    return first, level.read(dual, part, x)


@VIEWS.add
def the_primal_of_a_result(level: Level) -> Any:
    y = level.dual(grad=True) * 2
    primal = level.ad.unpack_dual(y).primal
    seen = plain([one.detach() if one is not None else None for one in level.ad.unpack_dual(primal)])
    return seen, primal.requires_grad


@VIEWS.add
def the_data_of_a_dual(level: Level) -> Any:
    dual = level.dual()
    return level.read(dual.data)


@VIEWS.add
def data_put_into_a_dual(level: Level) -> Any:
    dual = level.dual()
    dual.data = level.lib.tensor([9.0, 9.0])
    return level.read(dual)


@VIEWS.add
def detached_in_place(level: Level) -> Any:
    dual = level.dual() * 1
    dual.detach_()
    return level.read(dual)


@VIEWS.add
def real_parts(level: Level) -> Any:
    z, t = level.lib.tensor([1 + 2j]), level.lib.tensor([3 + 4j])
    dual = level.ad.make_dual(z, t) * 1
    before = plain(level.read(dual.real, dual.imag))
    dual.real.mul_(2)
    tangent = level.ad.unpack_dual(dual).tangent
    return before, level.read(dual.real, dual.imag), tangent.abs().tolist()


@VIEWS.add
def a_leaf_is_written(level: Level) -> Any:
    return level.dual(grad=True).mul_(2)


@VIEWS.add
def shapes_in_place(level: Level) -> Any:
    y = level.dual() * level.lib.ones(2, 1)
    y.t_()
    first = plain(level.read(y))
    y.unsqueeze_(0)
    second = plain(level.read(y))
    y.squeeze_()
    return first, second, level.read(y)


@VIEWS.add
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


@VIEWS.add
def a_part_of_a_dual_that_requires_grad(level: Level) -> Any:
    x = level.lib.tensor(X, requires_grad=True) * 1
    dual = level.ad.make_dual(x, level.lib.tensor(T))
    part = dual[1:][0]
    first = [level.ad.unpack_dual(one).tangent for one in (part, dual, x, x[0])]
    with level.lib.no_grad():
        part.mul_(10)
    return first, [level.ad.unpack_dual(one).tangent for one in (part, dual, x, x[1])]


@VIEWS.add
def a_part_of_a_primal(level: Level) -> Any:
    primal = level.ad.unpack_dual(level.dual(grad=True) * 2).primal
    return level.ad.unpack_dual(primal[0]).tangent, level.ad.unpack_dual(primal.detach()[0]).tangent


@VIEWS.add
def a_dual_written_into_a_primal(level: Level) -> Any:
    dual = level.dual()
    primal = level.ad.unpack_dual(dual).primal
    primal.add_(level.dual())
    return level.read(primal, dual)


@VIEWS.add
def random_numbers_in_place(level: Level) -> Any:
    dual = level.dual()
    dual.uniform_()
    return level.ad.unpack_dual(dual).tangent


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_tangents_alike(assert_agrees: Any, name: str) -> None:
    assert_agrees(in_level(VIEWS[name]))
