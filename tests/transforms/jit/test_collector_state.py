"""State of Tensors beside their values: histories, flags, gradients, hooks, attributes and modes."""

import pytest

import oplib
from oplib.autograd import Function
from oplib.errors import MissingRuleError, TracingError

from .worlds import CALLS, assert_same, make_tensor

pytestmark = pytest.mark.spec("J.16")


class AsRow(Function):
    """Returns a view of its argument."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.reshape(2, 3) * 2


class Same(Function):
    """Returns its argument."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Written(Function):
    """Writes into its argument."""

    @staticmethod
    def forward(ctx, x):
        x.add_(1)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class ByFlag(Function):
    """Computes something else for an argument that requires grad."""

    @staticmethod
    def forward(ctx, x):
        return x * 2 if x.requires_grad else x * 3

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


MODES = {
    "recorded": oplib.enable_grad,
    "no_grad": oplib.no_grad,
    "inference_mode": oplib.inference_mode,
}


def differentiate(world, found):
    result = found[0] if isinstance(found, tuple) else found
    if result.requires_grad:
        (result * 2).sum().backward()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [AsRow, Same, Written, ByFlag])
def test_a_function_leaves_what_it_leaves_without_compiling(function, mode):
    def step(world, x):
        made = x.clone() * world.leaf
        with MODES[mode]():
            found = (function.apply(made), function.apply(x), function.apply(world.plain))
            if function is not Written:
                found += (function.apply(world.leaf), function.apply(world.whole))
        return (*found, made)

    assert_same(step, differentiate)


@pytest.mark.parametrize("mode", MODES)
def test_results_of_a_mode_are_of_that_mode(mode):
    def step(world, x):
        with MODES[mode]():
            made = x * 2
            return (
                made, made[0], made.detach(), x[0], world.leaf * 2, world.leaf[0], oplib.ones(2),
                oplib.vmap(lambda row: row * 2)(x), oplib.vmap(lambda row: row)(world.leaf),
                *oplib.scan(lambda carry, row: (carry + row, carry * row), world.leaf[0], x),
                oplib.cond(x.sum() > 0, lambda one: one * 2, lambda one: one * 3, x),
                oplib.while_loop(lambda one: one.sum() < 100, lambda one: one * 2 + 1, x),
            )  # fmt: skip

    assert_same(step)
    with MODES[mode]():
        assert_same(step)


def test_flags_that_are_set_inside_count_outside():
    def step(world, x):
        world.plain.requires_grad_()
        world.base.requires_grad_()  # its views too
        world.leaf.requires_grad_(False)
        return world.plain * x + world.row * world.base, world.leaf * x

    assert_same(step, differentiate)


def test_a_history_that_is_removed_inside_is_removed():
    def step(world, x):
        world.other.detach_()
        return world.other * 2

    def renew(world, found):
        world.other = world.leaf.t() * 2

    assert_same(step, renew)


def test_a_leaf_that_is_made_inside_has_its_gradient():
    def step(world, x):
        inside, outside = x.clone().requires_grad_(), x.clone().requires_grad_()
        (inside**2).sum().backward()
        return (outside * world.leaf) ** 2, outside, inside

    assert_same(step, differentiate)
    assert_same(step, lambda world, found: found[0].sum().backward(inputs=[found[1]]))


@pytest.mark.filterwarnings("ignore:backward. create_graph=True makes a reference cycle")
@pytest.mark.parametrize("create_graph", [False, True])
def test_results_retain_their_gradients(create_graph):
    def step(world, x):
        part = world.leaf * x
        part.retain_grad()
        again = part * 2
        again.retain_grad()
        again.sum().backward(retain_graph=True)
        return part**2, part, again

    def run(world, found):
        (found[0].sum() + found[1].sum()).backward(create_graph=create_graph)
        world.leaf.grad, found[1].grad = world.leaf._grad.detach(), found[1]._grad.detach()

    def write_first(world, found):
        found[1].mul_(2)
        found[1].sum().backward()

    assert_same(step, run)
    assert_same(step, write_first)
    assert_same(lambda world, x: step(world, x)[1], differentiate)


@pytest.mark.spec("D.61")
@pytest.mark.parametrize("is_captured", [True, False])
@pytest.mark.parametrize(
    "act",
    [
        lambda leaf, past: leaf.register_hook(lambda grad: grad * 2).remove(),
        lambda leaf, past: past.register_hook(lambda grad: grad * 2),
        lambda leaf, past: leaf.register_post_accumulate_grad_hook(lambda leaf: None),
        lambda leaf, past: past.retain_grad(),
        lambda leaf, past: (past * 2).sum().backward(inputs=[past]),
        lambda leaf, past: oplib.autograd.graph.register_multi_grad_hook([leaf, past], lambda grads: None),
    ],
    ids=["leaf", "result", "accumulation", "retain_grad", "inputs", "several"],
)
def test_hooks_on_tensors_from_outside_are_refused_inside(act, is_captured):
    leaf = make_tensor(2, 3).requires_grad_()
    past = leaf * 2
    step = oplib.jit(lambda: act(leaf, past)) if is_captured else oplib.jit(act)
    with pytest.raises(TracingError, match=r"(retain_grad|hook) changes a tensor from outside of"):
        step(*[] if is_captured else [leaf, past])
    assert not (leaf._backward_hooks)
    assert not (leaf._post_accumulate_hooks)
    assert not (past._backward_hooks)
    assert not past.retains_grad
    (past * 3).sum().backward()
    assert leaf.grad.tolist() == [[6.0] * 3] * 2


@pytest.mark.parametrize("name", ["a leaf that is returned", "a result that retains"])
def test_a_hook_that_outlives_the_call_is_refused(name):
    weight = make_tensor(2, 3).requires_grad_()

    def step(x):
        made = x.clone().requires_grad_()
        result = weight * made
        result.retain_grad()
        hooked = {"a leaf that is returned": made}.get(name, result)
        hooked.register_hook(lambda grad: grad * 2)
        return made, result

    with pytest.raises(TracingError, match=r"a hook was registered on .* of .*test_collector_state.py:\d+"):
        oplib.jit(step)(make_tensor(2, 3))


def test_hooks_of_tensors_that_are_made_inside_work():
    def step(world, x):
        made = x.clone().requires_grad_()
        handle = made.register_hook(lambda grad: grad * 2)
        after = made.register_post_accumulate_grad_hook(lambda leaf: (leaf.grad.mul_(3), None)[1])
        (world.leaf * made).sum().backward()
        handle.remove()
        after.remove()
        result = world.leaf * x
        result.register_hook(lambda grad: grad * 5)
        return result, made

    assert_same(step, differentiate)


def test_attributes_of_tensors_that_are_made_inside_stay():
    def step(world, x):
        made = x + 1
        made.name, made.twin = "made", made * 2
        return made

    assert assert_same(step).compilations <= CALLS


def test_an_attribute_of_a_tensor_is_compared():
    weight = make_tensor(2)
    weight.scale = 2.0
    step = oplib.jit(lambda: weight * weight.scale)
    assert step().tolist() == [2, 4]
    weight.scale = 3.0
    assert step().tolist() == [3, 6]
    assert step.explain() == "<lambda>: a compiled program serves this call"


@pytest.mark.spec("D.61")
@pytest.mark.parametrize(
    "act",
    [
        lambda one: setattr(one, "count", one.count + 1),
        lambda one: delattr(one, "count"),
        lambda one: setattr(one, "count", one * 2),
        lambda one: setattr(one, "tag", "a"),
        lambda one: setattr(one, "tag", one * 2),
    ],
    ids=["counts", "vanishes", "becomes a Tensor", "is new", "is a new Tensor"],
)
def test_an_attribute_of_a_tensor_from_outside_is_not_set(act):
    weight = make_tensor(2)
    weight.count = 1
    told = r"the attribute weight\.(count|tag) of a tensor from outside was changed.*Keep the value in a dict"
    with pytest.raises(TracingError, match=told):
        oplib.jit(lambda: act(weight))()
    assert weight.count == 1
    assert not hasattr(weight, "tag")


def test_a_missing_derivative_raises_where_it_is_asked_for():
    weight = make_tensor(2).requires_grad_()
    step = oplib.jit(lambda x: (oplib.heaviside(weight, x), weight * x))
    for _ in range(2):
        jump, line = step(oplib.ones(2))
        assert jump.tolist() == [1, 1]
        line.sum().backward(retain_graph=True)
        with pytest.raises(MissingRuleError, match="heaviside"):
            jump.sum().backward()
    assert weight.grad.tolist() == [2, 2]
    assert oplib.jit(lambda x: oplib.heaviside(weight, x))(oplib.ones(2)).requires_grad


@pytest.mark.parametrize("is_constant", [True, False])
def test_a_constant_gradient_requires_no_grad(is_constant):
    def check(world, found):
        (grad,) = oplib.autograd.grad(found.sum(), world.leaf, create_graph=True)
        assert grad.requires_grad is not is_constant

    assert_same(lambda world, x: world.leaf * (x if is_constant else world.leaf), check)
