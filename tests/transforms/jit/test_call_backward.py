"""The tape outside of a compiled function: one node for each call, with higher derivatives."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import oplib
from oplib.autograd import Function, grad
from oplib.autograd.function import once_differentiable
from oplib.errors import AutogradError, SavedTensorError, TracingError
from oplib.utils.checkpoint import checkpoint

pytestmark = pytest.mark.spec("J.6")


def assert_close(mine, theirs):
    for one, other in zip(mine, theirs, strict=True):
        assert oplib.allclose(one.detach(), other.detach(), rtol=1e-5, atol=1e-6)


def test_a_result_with_a_history_is_differentiated_outside_by_one_node():
    weight, x = oplib.randn(3, 3).requires_grad_(), oplib.randn(2, 3).requires_grad_()

    def loss(x):
        return ((x @ weight).tanh() * x.detach()).sum()

    compiled = oplib.jit(loss)
    expected = grad(loss(x), [x, weight])
    for _ in range(2):
        result = compiled(x)
        assert type(result.grad_fn).__name__ == "CompiledCallBackward"
        assert {type(node).__name__ for node, _ in result.grad_fn.next_functions} == {"AccumulateGrad"}
        assert_close(grad(result, [x, weight]), expected)


def test_the_forward_does_not_run_again_in_the_backward(forget_ops):
    runs = []

    @oplib.custom_op("jit_tests::counted")
    def counted(x: np.ndarray) -> np.ndarray:
        runs.append(1)
        return x * 2

    counted.register_fake(lambda x: x)
    counted.register_autograd(lambda ctx, grad: grad * 2)
    x = oplib.ones(2, requires_grad=True)
    result = oplib.jit(lambda x: counted(x).sum())(x)
    before = len(runs)
    result.backward()
    assert len(runs) == before == 1
    assert x.grad.tolist() == [2, 2]


def test_a_second_backward_raises_unless_the_graph_is_kept():
    x = oplib.ones(2, requires_grad=True)
    result = oplib.jit(lambda x: (x * x).sum())(x)
    result.backward(retain_graph=True)
    result.backward()
    assert x.grad.tolist() == [4, 4]
    with pytest.raises(SavedTensorError, match="second time"):
        result.backward()


@pytest.mark.parametrize("mode", ["plain", "create_graph", "compiled_autograd"])
def test_a_leaf_that_only_another_result_depends_on_gets_no_gradient(mode):
    x, y, both = (oplib.tensor([number], requires_grad=True) for number in (2.0, 3.0, 5.0))
    seen = []
    y.register_hook(seen.append)

    def function(written):
        written += y * both
        return x * both * written.detach(), y * y

    function = oplib.jit(function)
    for _ in range(2):
        written = oplib.tensor([1.0])
        first, second = function(written)
        options = {"create_graph": mode == "create_graph", "retain_graph": True, "allow_unused": True}
        with oplib.autograd.compiled_autograd.enable() if mode == "compiled_autograd" else nullcontext():
            of_first, of_second, of_written = (
                grad(one, [x, y, both], **options) for one in (first, second, written)
            )
        assert [one if one is None else one.tolist() for one in of_first] == [[80], None, [32]]
        assert [one if one is None else one.tolist() for one in of_second] == [None, [6], None]
        assert [one if one is None else one.tolist() for one in of_written] == [None, [5], [3]]
        del seen[:]
        first.backward()
        assert y.grad is None
        assert not seen


def test_a_graph_that_was_freed_inside_cannot_be_used_outside():
    weight = oplib.ones(2, requires_grad=True)

    def train(x):
        loss = (x * weight * weight).sum()
        loss.backward()
        return loss

    loss = oplib.jit(train)(oplib.ones(2))
    assert weight.grad.tolist() == [2, 2]
    with pytest.raises(SavedTensorError, match="second time"):
        loss.backward()


@pytest.mark.parametrize("create_graph", [False, True])
def test_other_results_than_one_that_was_freed_or_overwritten_inside_are_differentiated(create_graph):
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    weight = oplib.tensor([3.0, 4.0], requires_grad=True)

    @oplib.jit
    def train(held):
        freed, overwritten = (x * weight).sum(), held * weight
        freed.backward()
        held.sin_()
        return freed, overwritten, x * x

    held = oplib.ones(2)
    freed, overwritten, kept = train(held)
    options = {"create_graph": create_graph, "allow_unused": True, "retain_graph": True}
    assert [one if one is None else one.tolist() for one in grad(kept, [x, weight], held, **options)] == [
        (2 * held * oplib.tensor([1.0, 2.0])).tolist(),
        None,
    ]
    for other, text in ((freed, "second time"), (overwritten, "modified by an inplace operation")):
        start = oplib.ones_like(other)
        for roots, starts in (([other], [start]), ([kept, other], [held, start])):
            with pytest.raises(SavedTensorError, match=text):
                grad(roots, [x, weight], starts, **options)
    kept.backward(held)


def test_a_saved_operand_that_was_written_raises():
    weight = oplib.ones(2)
    x = oplib.ones(2, requires_grad=True)
    result = oplib.jit(lambda x: (x * weight).sum())(x)
    weight.add_(1)
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        result.backward()


def test_derivatives_of_higher_orders_are_those_of_the_uncompiled_run():
    weight = oplib.tensor(3.0, requires_grad=True)

    def orders(function):
        x = oplib.tensor([1.0, 2.0], requires_grad=True)
        result = function(x)
        (first,) = grad(result, x, create_graph=True)
        (second,) = grad(first.sum(), x, create_graph=True)
        return result, first, second, *grad(second.sum(), [x, weight])

    def function(x):
        return (x.exp() * x.detach() * weight * weight * x).sum()

    assert_close(orders(oplib.jit(function)), orders(function))


def replace_state(world, x):
    result = x * x * x * world.state
    world.state = world.state.detach() * 2
    return result


def read_gradient(world, x):
    result = x * x * x
    (x.sum() * 5).backward()
    return result * x.grad.detach() * world.state


def write_argument(world, x):
    world.state += x * x
    return x * x * world.state.detach() * world.state


@pytest.mark.parametrize("function", [replace_state, read_gradient, write_argument])
def test_derivatives_of_higher_orders_are_of_the_state_at_the_call(function):
    world, x = SimpleNamespace(), oplib.tensor([2.0], requires_grad=True)

    def run(step):
        found = []
        for _ in range(3):
            world.state, x.grad = oplib.tensor([3.0]), None
            (first,) = grad(step(x), x, create_graph=True)
            found += [first, *grad(first, x)]
        return found

    step = oplib.jit(lambda x: function(world, x))
    assert_close(run(step), run(step.__wrapped__))


def test_a_derivative_of_higher_order_refuses_state_that_has_changed_since_the_call():
    model = SimpleNamespace(weight=oplib.tensor([3.0], requires_grad=True), scale=2.0)
    x = oplib.tensor([2.0], requires_grad=True)
    result = oplib.jit(lambda x: x * x * model.weight * model.scale)(x)
    model.scale = 5.0
    with pytest.raises(TracingError, match="a number, string or the like of"):
        grad(result, x, create_graph=True, retain_graph=True)
    assert grad(result, x)[0].tolist() == [24.0]


def test_a_derivative_of_higher_order_is_traced_under_the_autocast_of_the_call():
    x, y = (oplib.randn(4, 4).requires_grad_() for _ in range(2))
    function = oplib.jit(lambda x: x @ y @ x)
    found = []
    for run in (function.__wrapped__, function):
        with oplib.autocast("cpu", oplib.bfloat16):
            result = run(x)
        (first,) = grad(result.sum(), x, create_graph=True)
        found.append([result, first, *grad(first.sum(), x)])
    plain, compiled = found
    assert [one.dtype for one in compiled] == [one.dtype for one in plain]
    for one, other in zip(compiled, plain, strict=True):
        assert oplib.allclose(one.detach().float(), other.detach().float(), rtol=0.05, atol=0.05)


def test_the_backward_of_a_users_function_is_used():
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x * 100

    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    oplib.jit(lambda x: Scaled.apply(x).sum())(x).backward()
    assert x.grad.tolist() == [100, 200]
    x.grad = None
    oplib.jit(lambda x: Scaled.apply(x).sum().backward())(x)
    assert x.grad.tolist() == [100, 200]


def test_hooks_of_an_operand_run_once():
    weight = oplib.ones(2, requires_grad=True)
    weight.register_hook(lambda grad: grad * 10)
    oplib.jit(lambda x: (x * weight).sum())(oplib.ones(2)).backward()
    assert weight.grad.tolist() == [10, 10]


def test_a_written_tensor_with_a_history_gets_the_node_of_the_call():
    weight, buffer = oplib.ones(3, requires_grad=True), oplib.zeros(3)
    oplib.jit(lambda x: buffer.copy_(weight * x))(oplib.full((3,), 2.0))
    assert buffer.requires_grad
    buffer.sum().backward()
    assert weight.grad.tolist() == [2, 2, 2]


def test_a_result_goes_on_living_on_the_tape():
    x = oplib.ones(2, requires_grad=True)
    square = oplib.jit(lambda x: x * x)
    result = square(x)
    result.retain_grad()
    (result * 2).sum().backward()
    assert (result.grad.tolist(), x.grad.tolist()) == ([2, 2], [4, 4])
    square(x).add_(1).sum().backward()
    assert x.grad.tolist() == [6, 6]


def test_a_tensor_with_a_history_is_an_operand_like_a_leaf():
    weight = oplib.ones(2, requires_grad=True)
    doubled = weight * 2
    oplib.jit(lambda: (doubled * doubled).sum())().backward()
    assert weight.grad.tolist() == [8, 8]


def test_a_backward_inside_may_not_reach_a_node_made_outside():
    weight = oplib.ones(2, requires_grad=True)
    doubled = weight * 2
    with pytest.raises(TracingError, match="reaches a node that was recorded outside"):
        oplib.jit(lambda: doubled.sum().backward())()
    assert weight.grad is None


WAYS_TO_DIFFERENTIATE = {
    "backward": lambda loss, weight: loss.backward(),
    "backward of inputs": lambda loss, weight: loss.backward(inputs=[weight]),
    "grad": lambda loss, weight: grad(loss, weight),
    "grad that may be absent": lambda loss, weight: grad(loss, weight, allow_unused=True),
    "recorded grad": lambda loss, weight: grad(
        grad(loss * loss, loss, create_graph=True), weight, allow_unused=True
    ),
}


@pytest.mark.parametrize("make", [lambda weight: weight[0], lambda weight: weight.sum(0)], ids=["view", "op"])
@pytest.mark.parametrize("name", WAYS_TO_DIFFERENTIATE)
def test_a_gradient_inside_through_a_node_made_outside_raises_and_is_right_without_jit(make, name):
    def step(x):
        return WAYS_TO_DIFFERENTIATE[name]((made * x).sum(), weight)

    weight = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    made = make(weight)
    with pytest.raises(TracingError, match=r"f32\[2\], found as made. Call backward outside"):
        oplib.jit(step)(oplib.ones(2))
    assert weight.grad is None
    found = step(oplib.ones(2))
    assert weight.grad is not None if found is None else found[0] is not None


def test_a_gradient_inside_control_flow_through_a_node_made_outside_raises():
    weight = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    total = weight.sum(0)

    def step(x):
        return grad((total * x).sum(), weight, allow_unused=True)[0][0]

    for run in (
        lambda x: oplib.scan(lambda carry, _: (step(carry), None), x, length=2)[0],
        lambda x: oplib.cond(x.sum() > 0, step, lambda x: x * 2, x),
    ):
        assert run(oplib.ones(2)).tolist() == [1, 1]
        with pytest.raises(TracingError, match="reaches a node that was recorded outside"):
            oplib.jit(run)(oplib.ones(2))


def test_a_gradient_inside_by_one_captured_tensor_through_another_raises():
    weight, other = oplib.ones(2, requires_grad=True), oplib.ones(2, requires_grad=True)
    doubled = weight * 2
    tripled = doubled * 3
    by_middle = oplib.jit(lambda: grad(tripled.sum(), doubled, allow_unused=True))
    with pytest.raises(TracingError, match="found as tripled"):
        by_middle()
    run = oplib.jit(lambda: grad((tripled * other).sum(), (tripled, other)))
    assert [one.tolist() for one in run()] == [[1, 1], [6, 6]]


def test_results_of_one_node_made_outside_do_not_lead_to_each_other():
    first, second = (oplib.ones(2, 2, requires_grad=True) * 2).unbind(0)
    run = oplib.jit(lambda: grad(first.sum(), (first, second), allow_unused=True))
    gradient, absent = run()
    assert gradient.tolist() == [1, 1]
    assert absent is None


@pytest.mark.parametrize("make", [lambda weight: weight[0], lambda weight: weight.sum(0)], ids=["view", "op"])
def test_a_result_made_outside_is_differentiated_outside_together_with_its_leaf(make):
    def step(x):
        inner = (weight * 3).sum()
        inner.backward()
        return (made * weight * x).sum()

    def run(call):
        weight.grad = None
        result = call(oplib.tensor([2.0, 5.0]))
        (gradient,) = grad(result * result, weight, create_graph=True)
        (second,) = grad(gradient.sum(), weight)
        return [one.tolist() for one in (weight.grad, gradient, second)]

    weight = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    made = make(weight)
    expected = run(step)
    made = make(weight)
    assert run(oplib.jit(step)) == expected


def test_a_call_leaves_a_leaf_one_accumulator():
    weight = oplib.ones(2, requires_grad=True)
    doubled = weight * 2
    calls = []
    oplib.jit(lambda: (doubled * weight).sum())()
    doubled.grad_fn.next_functions[0][0].register_hook(lambda *_: calls.append(1))
    (doubled.sum() + weight.sum()).backward()
    assert weight.grad.tolist() == [3, 3]
    assert calls == [1]


def test_without_grad_mode_nothing_is_kept():
    weight = oplib.ones(2, requires_grad=True)
    with oplib.no_grad():
        result = oplib.jit(lambda x: x * weight)(oplib.ones(2))
    assert result.grad_fn is None
    assert not result.requires_grad


def test_a_view_of_a_written_tensor_with_a_history_has_one_too():
    weight, buffer = oplib.ones(2, 2, requires_grad=True), oplib.zeros(2, 2)
    row = buffer[0]
    oplib.jit(lambda x: buffer.copy_(weight * x))(oplib.full((2, 2), 2.0))
    assert row.requires_grad
    row.sum().backward()
    assert weight.grad.tolist() == [[2, 2], [0, 0]]


def test_a_write_inside_is_no_write_to_what_the_node_has_saved():
    weight = oplib.full((2,), 3.0, requires_grad=True)
    x = oplib.ones(2)
    oplib.jit(lambda x: x.mul_(weight))(x).sum().backward()
    assert (x.tolist(), weight.grad.tolist()) == ([3, 3], [1, 1])


VIEWS = {
    "select": lambda base: base[1],
    "slice": lambda base: base[:1],
    "all": lambda base: base[:],
    "transpose": lambda base: base.t(),
    "view of a view": lambda base: base.t()[0],
    "no view": lambda base: base * 1,
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("is_argument", [True, False])
def test_a_view_with_a_history_leads_to_its_base(name, is_argument):
    def differentiate(compile_):
        weight = oplib.tensor([[1.5, 2.5], [0.5, 3.0]], requires_grad=True)
        view = VIEWS[name](weight * 2)
        given = [view] if is_argument else []
        function = (lambda view: (view**3).sum()) if is_argument else (lambda: (view**3).sum())
        (first,) = grad(compile_(function)(*given), weight, create_graph=True)
        (second,) = grad((first**2).sum(), weight, create_graph=True)
        return first, second, grad(second.sum(), weight)[0]

    assert_close(differentiate(oplib.jit), differentiate(lambda function: function))


@pytest.mark.parametrize("written", ["base", "view"])
@pytest.mark.parametrize("name", ["select", "slice", "all", "transpose"])
def test_a_view_and_its_base_are_written_and_read_with_their_histories(name, written):
    def differentiate(compile_):
        weight = oplib.tensor([[1.5, 2.5], [0.5, 3.0]], requires_grad=True)
        base = weight * 2
        view = VIEWS[name](base)

        def function(factor):
            before = (view * 3).sum()
            (base if written == "base" else view).mul_(factor)
            return before + (view**3).sum() + base.sum()

        factor = oplib.tensor(2.0, requires_grad=True)
        loss = compile_(function)(factor)
        after = (view * base.sum()).sum()
        return (*grad(loss + after, (weight, factor)), view, base)

    assert_close(differentiate(oplib.jit), differentiate(lambda function: function))


def test_a_leaf_beside_its_view_gets_a_gradient_once():
    w, x = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), oplib.tensor([5.0, 6.0])
    row = w[0]

    def loss(x):
        return (row * x).sum() + (w * w).sum()

    (mine,) = grad(oplib.jit(loss)(x), (w,))
    (its,) = grad(loss(x), (w,))
    assert mine.tolist() == its.tolist() == [[7.0, 10.0], [6.0, 8.0]]


class DifferentiateInside(oplib.autograd.Function):
    """A Function whose backward calls ``backward`` on Tensors that it makes, and on one that it is given."""

    @staticmethod
    def forward(ctx, x, other):
        ctx.save_for_backward(x)
        ctx.other = other
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with oplib.enable_grad():
            again = x.detach().requires_grad_()
            again.sin().backward(grad)
            if ctx.other is not None:
                (ctx.other * 1).backward(grad)
        return again.grad, None


def test_a_backward_inside_of_the_backward_of_a_function_adds_nothing_to_outer_gradients():
    x = oplib.tensor([0.5, 1.0], requires_grad=True)
    step = oplib.jit(lambda x: DifferentiateInside.apply(x, None))
    for _ in range(2):
        x.grad = None
        step(x).sum().backward()
        np.testing.assert_allclose(x.grad, np.cos([0.5, 1.0]), rtol=1e-6)
    assert step.compilations == 1


def keep_leaf(x, w):
    leaf = w.detach().requires_grad_()
    return DifferentiateInside.apply(x, leaf), leaf


def keep_computed_leaf(x, w):
    leaf = (w * 2).detach().requires_grad_()
    return DifferentiateInside.apply(x, leaf), leaf


def use_captured_leaf(x, w):
    return DifferentiateInside.apply(x, w)


@pytest.mark.parametrize("function", [keep_leaf, keep_computed_leaf, use_captured_leaf])
def test_a_backward_inside_gives_no_gradient_to_a_tensor_that_outlives_the_call(function):
    x, w = oplib.ones(2, requires_grad=True), oplib.ones(2, requires_grad=True)
    with pytest.raises(TracingError, match=r"that the compiled function returns or keeps|outlives it"):
        oplib.jit(function)(x, w)


BACKWARD_WRITES = {
    "add_": lambda saved, grad: saved.add_(grad),
    "of detach": lambda saved, grad: saved.detach().add_(grad),
    "of data": lambda saved, grad: saved.data.add_(grad),
    "of an item of data": lambda saved, grad: saved.data.__setitem__(0, 9.0),
    "of a view": lambda saved, grad: saved[:1].add_(grad[:1]),
    "of data of a view": lambda saved, grad: saved[:1].data.add_(grad[:1]),
}


@pytest.mark.parametrize("name", BACKWARD_WRITES)
def test_a_write_of_a_backward_into_a_result_is_made_or_refused(name):
    class Write(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 1
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            BACKWARD_WRITES[name](ctx.saved_tensors[0], grad)
            return grad

    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    y = Write.apply(x)
    y.sum().backward()
    assert y.tolist() != [1.0, 2.0]
    with pytest.raises(TracingError, match=r"writes into a Tensor that the compiled function returns"):
        oplib.jit(Write.apply)(x)


class Once(oplib.autograd.Function):
    """A sine whose backward is not recorded."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].cos()


def differentiate_twice_outside(run):
    x = oplib.tensor([0.3, 0.4], requires_grad=True)
    (first,) = oplib.autograd.grad((run(lambda: Once.apply(x) + x**3)() ** 2).sum(), x, create_graph=True)
    first.sum().backward()


def differentiate_a_penalty(run):
    x = oplib.tensor([0.3, 0.4], requires_grad=True)

    def penalize():
        (first,) = oplib.autograd.grad((Once.apply(x) + x**3).sum(), x, create_graph=True)
        return (first * x).sum()

    run(penalize)().backward()


@pytest.mark.parametrize("differentiate", [differentiate_twice_outside, differentiate_a_penalty])
@pytest.mark.parametrize("run", [lambda function: function, oplib.jit])
def test_a_backward_that_is_differentiated_once_raises_the_second_time(differentiate, run):
    with pytest.raises(AutogradError, match="marked with @once_differentiable"):
        differentiate(run)


def test_a_backward_that_is_differentiated_once_leaves_other_results_alone():
    x = oplib.tensor([0.3, 0.4], requires_grad=True)

    def step():
        (first,) = oplib.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
        return first, (x**3).sum()

    _, other = oplib.jit(step)()
    other.backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.array([0.3, 0.4]) ** 2, rtol=1e-6)


class WriteIntoSaved(Function):
    """Writes into a saved Tensor, which is a result too, in its backward."""

    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        with oplib.no_grad():
            y.add_(g)
        return g * 3


def test_a_write_of_a_backward_outside_into_a_result_is_refused():
    def run(function):
        x = oplib.tensor([1.0, 2.0], requires_grad=True)
        y = function(x)
        (y * 1).sum().backward()
        return y.tolist(), x.grad.tolist()

    def run_inside(x):
        y = WriteIntoSaved.apply(x)
        (gradient,) = grad((y * 1).sum(), x)
        return y.detach(), gradient

    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    assert run(WriteIntoSaved.apply) == ([2.0, 3.0], [3.0, 3.0])
    assert [value.tolist() for value in oplib.jit(run_inside)(x)] == [[2.0, 3.0], [3.0, 3.0]]
    with pytest.raises(TracingError, match="the backward of a Function writes into a Tensor"):
        run(oplib.jit(lambda x: WriteIntoSaved.apply(x)))
    assert oplib.jit(lambda x: WriteIntoSaved.apply(x) * 1)(x).tolist() == [1.0, 2.0]


def test_a_result_that_depends_on_leaves_of_the_function_alone_is_differentiated_to_nothing():
    def run():
        return oplib.ones(2, requires_grad=True) * 2

    x = oplib.ones(2, requires_grad=True)
    for function in (run, oplib.jit(run)):
        y = function()
        assert y.requires_grad
        (y * x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
        x.grad = None
        assert oplib.autograd.grad(function().sum(), x, allow_unused=True) == (None,)


class _ScaledBack(oplib.autograd.Function):
    """Its backward reads what its forward does not."""

    factor: oplib.Tensor

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * _ScaledBack.factor


@pytest.mark.parametrize("form", ["hook", "view in a hook", "Function"])
def test_a_backward_reads_a_tensor_that_the_function_itself_does_not(form):
    factor = oplib.tensor([2.0, 3.0])
    _ScaledBack.factor = factor

    def step(x):
        if form == "Function":
            return _ScaledBack.apply(x)
        y = x * 1
        y.register_hook(lambda grad: grad * (factor if form == "hook" else factor[:1].expand(2)))
        return y

    compiled = oplib.jit(step)
    for _ in range(2):
        gradients = []
        for run in (step, compiled):
            x = oplib.ones(2, requires_grad=True)
            run(x).sum().backward()
            gradients.append(x.grad.tolist())
        assert gradients[0] == gradients[1]
        factor.add_(1)
    result = compiled(oplib.ones(2, requires_grad=True))
    factor.add_(1)
    with pytest.raises(oplib.errors.AutogradError, match="modified by an inplace operation"):
        result.sum().backward()


class Counting(oplib.autograd.Function):
    """Its backward counts its runs in a Tensor from outside."""

    runs = oplib.zeros(())

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Counting.runs.add_(1)
        return grad * 2


def draw_again(x):
    return checkpoint(
        lambda x: oplib.dropout(x * 1, 0.5).sin(), x, use_reentrant=False, preserve_rng_state=False
    )


@pytest.mark.parametrize(
    ("compute", "text"),
    [
        (Counting.apply, "add_: a traced value would be stored"),
        (draw_again, "Generator: a draw.* inside a trace would change"),
    ],
)
def test_a_backward_that_changes_what_is_outside_runs_inside_of_the_compiled_function(compute, text):
    def train(x):
        compute(x).sum().backward()
        return x.detach() * 1

    x = oplib.ones(3, requires_grad=True)
    with pytest.raises(TracingError, match=text):
        oplib.jit(lambda x: compute(x))(x)
    before = Counting.runs.item()
    assert oplib.jit(train)(x).tolist() == [1, 1, 1]
    assert Counting.runs.item() - before == (compute is not draw_again)


def test_a_checkpoint_that_preserves_the_state_draws_again_in_a_backward_outside():
    with pytest.raises(TracingError, match="would change a Generator"):
        oplib.jit(draw_again)(oplib.ones(3, requires_grad=True))
    x = oplib.ones(64, requires_grad=True)
    y = oplib.jit(lambda x: checkpoint(lambda x: oplib.dropout(x * 1, 0.5).sin(), x, use_reentrant=False))(x)
    y.sum().backward()
    assert [slope == 0 for slope in x.grad.tolist()] == [value == 0 for value in y.tolist()]
