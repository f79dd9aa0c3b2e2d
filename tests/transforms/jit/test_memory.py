"""Tensors after a call: shapes that were changed in place, ``data``, and shared memory."""

import pytest

import oplib
from oplib.errors import ArgumentError, AutogradError, TracingError
from oplib.pytree import tree_leaves

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
}


@pytest.mark.parametrize("name", [*TURNS, *SHRINKS])
def test_another_shape_of_a_tensor_that_is_made_inside_stays(name):
    def step(world, x):
        made, hidden, detached = x * 2, x * 3, (x * 4).detach()
        for tensor in (made, hidden, detached):
            (TURNS | SHRINKS)[name](tensor)
            tensor[0].fill_(9.0)
        return made, made[0], hidden.detach(), detached

    assert_same(step, lambda world, found: [one.add_(1) for one in found])


@pytest.mark.spec("D.61")
@pytest.mark.parametrize("kind", ["plain", "base", "row"])
@pytest.mark.parametrize("name", [*TURNS, *SHRINKS, "set_", "resize_ to more"])
def test_the_shape_of_a_tensor_from_outside_is_not_changed(name, kind):
    acts = {"set_": lambda t: t.set_(oplib.ones(2)), "resize_ to more": lambda t: t.resize_(9, 9)}
    act = (TURNS | SHRINKS | acts)[name]
    tensor = getattr(World(), kind)
    shape, values = tensor.shape, tensor.tolist()
    told = r"_ changes a tensor from outside of the function. Got f32.*Do this outside"
    with pytest.raises(TracingError, match=told):
        oplib.jit(act)(tensor)
    with pytest.raises(TracingError, match=told):
        oplib.jit(lambda: act(tensor))()
    assert (tensor.shape, tensor.tolist()) == (shape, values)


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


def test_a_trace_that_fails_leaves_data_as_it_was():
    weight = make_tensor(2, 3)
    view = weight[0]

    @oplib.jit
    def step():
        weight.data = oplib.ones(3, 2)
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

    def outside(world, x):
        made = world.leaf * x
        made.t_()
        world.plain.mul_(world.leaf)
        return made, world.plain.t(), world.plain[0]

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


@pytest.mark.parametrize("part", [lambda row: row, lambda row: row[:1]], ids=["a view", "a view of it"])
@pytest.mark.parametrize("wrap", [lambda step: step, oplib.jit], ids=["plain", "compiled"])
def test_a_write_into_a_view_reaches_views_that_cannot_be_rebased(wrap, part):
    first = oplib.ones(3, 2, requires_grad=True)
    row = first[0]
    with oplib.no_grad():
        views = row[:1], first[0]

    @wrap
    def step():
        with oplib.no_grad():
            part(row).mul_(2)

    step()
    for view in views:
        with pytest.raises(AutogradError, match="has been modified inplace"):
            _ = view.grad_fn


def make_lost_views(leaf):
    """Returns a base that was written, and views of it whose histories may not be read any more."""
    base = leaf * 1
    item, _ = base.split(1)
    with oplib.no_grad():
        constant = base[1:]
    base.mul_(2)
    return base, item, constant


@pytest.mark.parametrize("is_base_returned", [False, True])
@pytest.mark.parametrize("wrap", [lambda step: step, oplib.jit], ids=["plain", "compiled"])
def test_a_view_whose_history_may_not_be_read_is_returned(wrap, is_base_returned):
    leaf = oplib.tensor([1.0, 2.0], requires_grad=True)

    @wrap
    def step(leaf):
        base, item, constant = make_lost_views(leaf)
        return (item, constant, base) if is_base_returned else (item, constant)

    for _ in range(2):
        item, constant, *_ = step(leaf)
        base = item._base
        assert constant._base is base
        assert (item.tolist(), constant.tolist()) == ([2.0], [4.0])
        assert item.requires_grad
        assert constant.requires_grad
        for view in (item, constant):
            with pytest.raises(AutogradError, match="has been modified inplace"):
                _ = view.grad_fn
            with pytest.raises(AutogradError, match="has been modified inplace"):
                view * 2
        (grad,) = oplib.autograd.grad(base.sum(), leaf)
        assert grad.tolist() == [2.0, 2.0]
        base.detach().mul_(3)
        assert (item.tolist(), constant.tolist()) == ([6.0], [12.0])
        base.detach_()  # reads the history of neither
        assert item.requires_grad


@pytest.mark.parametrize("wrap", [lambda step: step, oplib.jit], ids=["plain", "compiled"])
def test_a_view_whose_history_may_not_be_read_is_captured(wrap):
    leaf = oplib.tensor([1.0, 2.0], requires_grad=True)
    base, item, constant = make_lost_views(leaf)

    @wrap
    def use(x):
        return x * 3 + item.detach() + constant.data

    @wrap
    def write(x):
        with oplib.no_grad():
            item.detach().mul_(x)

    @wrap
    def read(x):
        return x * item

    found = []
    for number in range(3):
        x = oplib.full((1,), number + 2.0, requires_grad=True)
        result = use(x)
        write(x.detach())
        found += [result.item(), oplib.autograd.grad(result, x)[0].item(), base.tolist()]
        with pytest.raises(AutogradError, match="has been modified inplace"):
            read(x)
    assert found == [12.0, 3.0, [4.0, 4.0], 17.0, 3.0, [12.0, 4.0], 28.0, 3.0, [48.0, 4.0]]
    assert getattr(use, "compilations", 1) == getattr(write, "compilations", 1) == 1


STEPS_WITH_LOST_VIEWS = {
    "write the base": lambda base, item, constant, x: base.mul_(x),
    "write the base with a number": lambda base, item, constant, x: base.mul_(2),
    "write the base in no_grad": lambda base, item, constant, x: oplib.no_grad()(base.mul_)(x),
    "write the item": lambda base, item, constant, x: item.mul_(x),
    "write the item in no_grad": lambda base, item, constant, x: oplib.no_grad()(item.mul_)(x),
    "write the constant in no_grad": lambda base, item, constant, x: oplib.no_grad()(constant.add_)(1),
    "view it in no_grad": lambda base, item, constant, x: oplib.no_grad()(constant.view)(1, 1),
    "compute in no_grad": lambda base, item, constant, x: oplib.no_grad()(item.mul)(x),
    "compute": lambda base, item, constant, x: item * x,
    "return it": lambda base, item, constant, x: (item, base * x),
    "ask for its flag": lambda base, item, constant, x: x * item.requires_grad,
    "assign data": lambda base, item, constant, x: setattr(item, "data", x.detach() * 3),
    "differentiate the base": lambda base, item, constant, x: oplib.autograd.grad((base * x).sum(), x)[0],
}


def read_with_history(tensor):
    try:
        has_node = tensor.grad_fn is not None
    except AutogradError:
        has_node = "refused"
    return tensor.tolist(), tensor.requires_grad, has_node, tensor._version


@pytest.mark.parametrize("name", STEPS_WITH_LOST_VIEWS)
def test_a_step_with_views_whose_histories_may_not_be_read_is_that_of_the_plain_run(name):
    def run(wrap):
        views = make_lost_views(oplib.tensor([1.0, 2.0], requires_grad=True))
        step = wrap(lambda x: STEPS_WITH_LOST_VIEWS[name](*views, x))
        found = []
        for number in range(3):
            try:
                result = step(oplib.full((1,), number + 2.0, requires_grad=True))
            except AutogradError as error:
                result = str(error)
            tensors = [one for one in tree_leaves(result) if isinstance(one, oplib.Tensor)]
            found += [len(tensors) or result, *map(read_with_history, [*views, *tensors])]
        return found

    assert run(oplib.jit) == run(lambda step: step)


WRITES_OF_VIEWS = {
    "none": lambda row, first: None,
    "one view": lambda row, first: row.relu_(),
    "one view, another is read": lambda row, first: (row.mul_(2), first.grad_fn),
    "two views": lambda row, first: (first.mul_(3), row.mul_(2)),
    "one view, whose history is read": lambda row, first: row.mul_(2).grad_fn,
}


@pytest.mark.parametrize("is_written_inside", [False, True])
@pytest.mark.parametrize("name", WRITES_OF_VIEWS)
def test_a_view_of_a_base_that_is_detached_inside_keeps_its_history(name, is_written_inside):
    def run(wrap):
        leaf = oplib.tensor([[-1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        base = leaf * 1
        row, first = base[0], base[:, 0]
        with oplib.no_grad():
            constant = base[1]
        if not is_written_inside:
            WRITES_OF_VIEWS[name](row, first)

        @wrap
        def step():
            if is_written_inside:
                WRITES_OF_VIEWS[name](row, first)
            base.detach_()

        step()
        flags = base.requires_grad, row.requires_grad, first.requires_grad
        if name == "none":  # the history of `constant` may not be read after a write
            flags += (constant.requires_grad,)
        return flags, [one.tolist() for one in oplib.autograd.grad(row.sum(), leaf)]

    assert run(oplib.jit) == run(lambda step: step)


@pytest.mark.parametrize("wrap", [lambda step: step, oplib.jit], ids=["plain", "compiled"])
def test_a_view_that_cannot_be_rebased_is_written_at_each_call(wrap):
    weight = oplib.ones(3, 2, requires_grad=True)
    with oplib.no_grad():
        row = weight[0]

    @wrap
    def step():
        with oplib.no_grad():
            row.mul_(2)

    for _ in range(3):
        step()
    assert weight.tolist() == [[8.0, 8.0], [1.0, 1.0], [1.0, 1.0]]


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


@pytest.mark.parametrize("names", [["base", "row"], ["row", "base"], ["row", "row"]], ids=str)
def test_assigned_data_of_base_and_view(names):
    def step(world, x):
        for name in names:
            getattr(world, name).data = make_tensor(*getattr(world, name).shape) * 2

    assert_same(step)


def test_out_does_not_let_a_tensor_from_outside_grow():
    weight = oplib.ones(2)
    x = oplib.ones(4)

    def grow():
        oplib.add(x, x, out=weight)

    with pytest.raises(TracingError, match=r"grow: \w+ at .*test_memory.py:\d+ resizes a tensor from"):
        oplib.jit(grow)()
    assert weight.shape == (2,)
    assert oplib.jit(lambda x: (x * 2).resize_(4))(oplib.ones(2)).shape == (4,)


def test_a_resize_of_a_tensor_with_views_is_refused_inside_too():
    def step(x):
        made = x * 1
        views = made[0], made[1]
        made.resize_(4, 4)
        return views

    with pytest.raises(ArgumentError, match="share"):
        oplib.jit(step)(oplib.ones(2, 2))
