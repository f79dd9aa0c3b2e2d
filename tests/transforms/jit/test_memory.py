"""Tensors after a call: shapes that were changed in place, ``data``, and shared memory."""

from itertools import permutations

import pytest

import oplib
from oplib.errors import ArgumentError, TracingError

from .worlds import World, assert_same, make_tensor

pytestmark = pytest.mark.spec("J.16")

TURNS = {
    "t_": lambda t: t.t_(),
    "transpose_": lambda t: t.transpose_(0, -1),
    "unsqueeze_": lambda t: t.unsqueeze_(0),
    "squeeze_": lambda t: t.squeeze_(),
    "swapaxes_": lambda t: t.swapaxes_(0, -1),
    "swapdims_": lambda t: t.swapdims_(0, -1),
    "there and back": lambda t: t.unsqueeze_(0).squeeze_(0),
    "t_ twice": lambda t: t.t_().t_(),
}
SHRINKS = {
    "as_strided_": lambda t: t.as_strided_((2, 2), (1, 2)),
    "resize_": lambda t: t.resize_(2, 2),
    "resize_ to as many": lambda t: t.resize_(3, 2),
}
DATA = {
    "a Tensor from outside": lambda world, t: setattr(t, "data", world.other),
    "a Tensor made inside": lambda world, t: setattr(t, "data", world.other * 2),
    "a view": lambda world, t: setattr(t, "data", world.other[1]),
    "a view of a Tensor made inside": lambda world, t: setattr(t, "data", (world.other * 2)[0]),
    "data": lambda world, t: setattr(t, "data", world.other.data),
    "set_": lambda world, t: t.set_(world.other),
    "set_ with a size": lambda world, t: t.set_(world.other, 1, (2,)),
    "set_ to nothing": lambda world, t: t.set_(),
}


@pytest.mark.parametrize("name", TURNS)
def test_another_shape_stays(name):
    def step(world, x):
        made = x * 2
        tensors = [world.plain, world.leaf, x, made, *[world.wide] * (name not in {"t_", "t_ twice"})]
        with oplib.no_grad():
            for tensor in tensors:
                TURNS[name](tensor)
                tensor[0].fill_(9.0)
        return x, made, made[0], world.plain[0], world.plain.detach()

    assert_same(step, lambda world, found: [one.add_(1) for one in found[2:]])


@pytest.mark.parametrize("name", SHRINKS)
def test_fewer_items_stay(name):
    def step(world, x):
        made = x * 2
        for tensor in (world.plain, world.other, world.wide, x, made):
            SHRINKS[name](tensor)
            tensor[0].fill_(9.0)
        return made, made.detach(), x

    assert_same(step, lambda world, found: found[1].add_(1), calls=1)
    assert_same(lambda world, x: SHRINKS["resize_"](x).numel())


@pytest.mark.parametrize("kind", ["base", "row", "whole"])
@pytest.mark.parametrize("name", TURNS)
def test_views_show_the_same_items_after_another_shape(name, kind):
    def step(world, x):
        tensor = getattr(world, kind)
        before = world.base[1:]
        TURNS[name](tensor)
        tensor[0].mul_(2)
        return before, tensor[:1], tensor.detach()

    assert_same(step, lambda world, found: found[0].add_(1), calls=4 if name == "t_" else 2)


@pytest.mark.parametrize("name", SHRINKS)
def test_a_view_shows_fewer_items(name):
    def step(world, x):
        SHRINKS[name](world.whole)
        return world.whole.detach()

    assert_same(step, lambda world, found: found.add_(1), calls=2)


@pytest.mark.parametrize("kind", ["plain", "base", "row", "leaf"])
@pytest.mark.parametrize("name", DATA)
def test_other_data_stays(name, kind):
    def step(world, x):
        tensor = getattr(world, kind)
        before = tensor.detach()
        with oplib.no_grad():
            DATA[name](world, tensor)
            tensor.add_(1)
        return before, tensor.detach(), tensor.data, tensor.detach()[:1]

    assert_same(step, lambda world, found: [one.add_(1) for one in found])


def test_other_data_and_another_shape_stay():
    def step(world, x):
        for tensor in (world.plain, world.base):
            tensor.data = world.other * 3
            tensor.unsqueeze_(0)
        return world.base.detach()

    assert_same(step)


def test_views_that_nothing_leads_to_show_the_same_items():
    worlds = World(), World()
    unseen = [world.plain[0] for world in worlds]
    step = oplib.jit(lambda: worlds[1].plain.t_().add_(1))
    for _ in range(3):
        worlds[0].plain.t_().add_(1)
        step()
        assert unseen[1].tolist() == unseen[0].tolist()
        for view, world in zip(unseen, worlds, strict=True):
            view.mul_(2)
            assert view._base is world.plain
        assert worlds[1].plain.tolist() == worlds[0].plain.tolist()
    assert step.compilations == 3  # plain, transposed, and transposed back


def test_a_trace_that_fails_leaves_shapes_as_they_were():
    weight = make_tensor(2, 3)
    view = weight[0]

    @oplib.jit
    def step():
        weight.t_()
        weight.tag = 1
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        step()
    assert (weight.shape, weight._version, view.tolist(), weight.stride()) == ((2, 3), 0, [1, 2, 3], (3, 1))
    assert not hasattr(weight, "tag")
    view.add_(1)
    assert weight[0].tolist() == [2, 3, 4]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_gradients_follow_another_shape(is_compiled, create_graph):
    def inside(world, x):
        turned = world.leaf * x
        turned.t_()
        (turned * world.other).sum().backward()
        with oplib.no_grad():
            world.leaf.unsqueeze_(0)
            world.leaf.squeeze_(0)

    def outside(world, x):
        made = world.leaf * x
        made.t_()
        world.plain.mul_(world.leaf)
        world.plain.t_()
        return made, world.plain, world.plain[0]

    def differentiate(world, found):
        loss = (found[0] ** 2).sum() + (found[1] * world.other).sum() + found[2].sum()
        with oplib.autograd.compiled_autograd.enable() if is_compiled else oplib.enable_grad():
            (grad,) = oplib.autograd.grad(loss, world.leaf, create_graph=create_graph)
        world.kept = grad.detach()
        world.plain = make_tensor(2, 3)

    assert_same(inside)
    assert_same(outside, differentiate)


def test_results_share_memory_as_without_compiling():
    def step(world, x):
        made, hidden, history = x * 2, x * 3, world.leaf * 2
        return (
            made, made.data, made.detach(), made.data[0], hidden[0], hidden[1:], hidden.view(-1),
            history, history.data, history.detach(), x.data, x.detach()[1], world.leaf.detach(),
            world.row.data, world.row.detach(),
        )  # fmt: skip

    def write(world, found):
        with oplib.no_grad():
            for one in found[1:7] + found[8:]:
                one.add_(1)

    assert_same(step)
    assert_same(step, write)


def test_writes_through_data_are_seen():
    def step(world, x):
        x.data.add_(1)
        world.leaf.data.mul_(2)
        alias = world.base.data
        alias[0].zero_()
        return alias

    assert_same(step, lambda world, alias: alias.add_(1))


def test_a_repeated_result_may_not_be_written():
    step = oplib.jit(lambda x: (x * 2).expand(2, 2))
    with pytest.raises(oplib.errors.AutogradError, match="single memory location"):
        step(oplib.ones(2)).add_(1)


def test_data_that_is_another_part_of_its_memory_compiles_again():
    table, weight = make_tensor(2, 3), make_tensor(2, 3)
    step = oplib.jit(lambda: weight * 2)
    for row in (0, 1, 0):
        weight.data = table[row]
        assert step().tolist() == (table[row] * 2).tolist()


ACTS = {
    "data of the base": lambda world: setattr(world.base, "data", make_tensor(2, 3) * 2),
    "data of the view": lambda world: setattr(world.row, "data", make_tensor(3)),
    "a shape of the base": lambda world: world.base.unsqueeze_(0),
    "a shape of the view": lambda world: world.row.unsqueeze_(0),
}


@pytest.mark.parametrize("order", list(permutations(ACTS, 4))[::3], ids=str)
def test_shapes_after_assigned_data_of_base_and_view(order):
    assert_same(lambda world, x: [ACTS[name](world) for name in order] and None)


@pytest.mark.parametrize("order", list(permutations(ACTS, 2)), ids=str)
def test_versions_after_assigned_data_and_shapes(order):
    assert_same(lambda world, x: [ACTS[name](world) for name in order] and None)


def test_a_tensor_from_outside_that_would_grow_is_refused():
    weight = oplib.ones(2)

    def grow():
        weight.resize_(4)

    with pytest.raises(TracingError, match=r"grow: resize_ at .*test_memory.py:\d+ resizes a tensor from"):
        oplib.jit(grow)()
    assert weight.shape == (2,)
    assert oplib.jit(lambda x: (x * 2).resize_(4))(oplib.ones(2)).shape == (4,)


def test_a_resize_of_a_tensor_with_views_is_refused_inside_too():
    world = World()
    with pytest.raises(ArgumentError, match="views of the tensor share its memory"):
        oplib.jit(lambda: world.base.resize_(3, 2))()
