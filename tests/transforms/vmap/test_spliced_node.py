"""Functions with a rule of their own inside of a map: called once on the whole batch, recorded outside."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Function, forward_ad, grad
from oplib.errors import AutogradError, DimensionError, MissingRuleError, SavedTensorError
from oplib.modes import modes

from .rows import Seven, W, X

pytestmark = pytest.mark.usefixtures("with_64_bits")


class SinTimes(Function):
    """``x.sin() * y``, whose rule notes what it gets."""

    calls: list[tuple] = []  # noqa: RUF012  a fixture empties it

    @staticmethod
    def forward(x, y):
        return x.sin() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return (g * x.cos() * y).sum_to_size(x.shape), (g * x.sin()).sum_to_size(y.shape)

    @staticmethod
    def vmap(info, in_dims, x, y):
        SinTimes.calls.append((info.batch_size, in_dims, x.shape, y.shape, len(modes.state.map_levels)))
        x = x if in_dims[0] is None else x.movedim(in_dims[0], 0)
        y = y if in_dims[1] is None else y.movedim(in_dims[1], 0)
        return SinTimes.apply(x, y), 0


@pytest.fixture(autouse=True)
def forget_calls():
    SinTimes.calls.clear()


# The call ---------------------------------------------------------------------------------------------------


def test_the_rule_gets_the_batch_outside_of_the_map(x, w):
    y = oplib.vmap(lambda a: SinTimes.apply(a * 1, w))(x)
    assert SinTimes.calls == [(2, (0, None), (2, 3), (3,), 0)]
    np.testing.assert_allclose(y.detach().numpy(), np.sin(X) * W)


def test_a_call_on_nothing_that_is_mapped_needs_no_rule(x, w):
    y = oplib.vmap(lambda a: SinTimes.apply(w, w) * a)(x)
    assert SinTimes.calls == []
    np.testing.assert_allclose(y.detach().numpy(), np.sin(W) * W * X)


def test_a_call_where_nothing_requires_a_gradient_records_nothing():
    y = oplib.vmap(lambda a: SinTimes.apply(a, oplib.tensor(W)))(oplib.tensor(X))
    assert (y.requires_grad, y.grad_fn) == (False, None)


def test_a_call_without_grad_mode_records_nothing(x, w):
    def function(a):
        with oplib.no_grad():
            return SinTimes.apply(a, w)

    assert not oplib.vmap(function)(x).requires_grad


def test_an_error_in_the_rule_leaves_no_map(x):
    class Broken(Seven):
        @staticmethod
        def vmap(info, in_dims, x):
            raise ZeroDivisionError("in the rule")

    with pytest.raises(ZeroDivisionError, match="in the rule"):
        oplib.vmap(Broken.apply)(x)
    assert modes.state.map_levels == ()


# Gradients outside ------------------------------------------------------------------------------------------


def test_first_and_second_gradients_are_those_of_jax(x, w):
    y = oplib.vmap(lambda a: SinTimes.apply(a.exp(), w * 2).cos())(x)
    first = grad(y.sum(), (x, w), create_graph=True)
    second = grad((first[0] * first[0]).sum() + (first[1] * first[1]).sum(), (x, w))
    loss = lambda x, w: jnp.cos(jnp.sin(jnp.exp(x)) * 2 * w).sum()  # noqa: E731
    penalty = lambda x, w: sum((one**2).sum() for one in jax.grad(loss, (0, 1))(x, w))  # noqa: E731
    due = (*jax.grad(loss, (0, 1))(X, W), *jax.grad(penalty, (0, 1))(X, W))
    for one, other in zip((*first, *second), due, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-9)


def test_the_backward_of_the_user_is_the_one_that_runs(x):
    y = oplib.vmap(lambda a: Seven.apply(a * 2) * 3)(x)
    np.testing.assert_allclose(grad(y.sum(), x)[0].numpy(), 3 * 7 * 2 * X * 2)


def test_what_the_rule_has_recorded_is_found_in_the_graph_outside(x):
    y = oplib.vmap(lambda a: Seven.apply(a * 2).exp())(x)
    names = []
    node = y.grad_fn
    while node is not None and node.next_functions:
        names.append(node.name())
        node = node.next_functions[0][0]
    assert [names[0], names[1], names[-1]] == ["ExpBackward0", "SevenBackward", "MulBackward0"]
    assert node.variable is x


def test_nested_maps_hand_the_batches_to_the_rule_one_after_the_other(w):
    cube = np.arange(12.0).reshape(2, 2, 3) / 7
    t = oplib.tensor(cube, requires_grad=True)
    y = oplib.vmap(oplib.vmap(lambda a: SinTimes.apply(a, w)))(t)
    assert [call[-1] for call in SinTimes.calls] == [1, 0]
    by_t, by_w = grad((y * y).sum(), (t, w))
    due = jax.grad(lambda t, w: ((jnp.sin(t) * w) ** 2).sum(), (0, 1))(cube, W)
    np.testing.assert_allclose(by_t.numpy(), due[0], rtol=1e-10)
    np.testing.assert_allclose(by_w.numpy(), due[1], rtol=1e-10)


def test_a_pass_frees_what_the_rule_has_saved_and_retain_graph_keeps_it(x):
    total = oplib.vmap(Seven.apply)(x).sum()
    total.backward(retain_graph=True)
    total.backward()
    np.testing.assert_allclose(x.grad.numpy(), 14 * X)
    with pytest.raises(SavedTensorError, match=r"a second time\. SevenBackward: "):
        total.backward()


# Gradients inside -------------------------------------------------------------------------------------------


def test_a_gradient_inside_runs_the_rule_again(x, w):
    found = oplib.vmap(lambda a: grad(SinTimes.apply(a, w).sum(), a)[0])(x)
    assert [in_dims for _, in_dims, *_ in SinTimes.calls] == [(0, None), (0, 0)]
    np.testing.assert_allclose(found.numpy(), np.cos(X) * W)


def test_a_gradient_inside_by_what_is_not_mapped_is_that_of_each_example(x, w):
    found = oplib.vmap(lambda a: grad(SinTimes.apply(a, w).sum(), w)[0])(x)
    np.testing.assert_allclose(found.numpy(), np.sin(X))


def test_a_gradient_inside_is_differentiated_outside(x):
    inside = oplib.vmap(lambda a: grad(Seven.apply(a).sum(), a, create_graph=True)[0] * a)(x)
    np.testing.assert_allclose(inside.detach().numpy(), 7 * X * X)
    np.testing.assert_allclose(grad(inside.sum(), x)[0].numpy(), 14 * X)


def test_a_gradient_inside_is_differentiated_inside(x):
    def second(a):
        (first,) = grad(Seven.apply(a).sum(), a, create_graph=True)
        return grad((first * first).sum(), a)[0]

    np.testing.assert_allclose(oplib.vmap(second)(x).numpy(), 2 * 49 * X)


# Forward mode -----------------------------------------------------------------------------------------------


class PushedSinTimes(SinTimes):
    """``x.sin() * y`` with a jvp. The rule gets the batch of both arguments."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, of_x, of_y):
        x, y = ctx.saved_tensors
        return of_x * x.cos() * y + x.sin() * of_y

    @staticmethod
    def vmap(info, in_dims, x, y):
        x, y = x.movedim(in_dims[0], 0), y.expand(2, 3) if in_dims[1] is None else y.movedim(in_dims[1], 0)
        return PushedSinTimes.apply(x, y), 0


def push(function, *pairs):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(*(forward_ad.make_dual(*pair) for pair in pairs))).tangent


def map_outside(function, x, w):
    return push(oplib.vmap(function, (0, None)), (x, x * 2), (w, w * 3))


def map_inside(function, x, w):
    return oplib.vmap(lambda a: push(function, (a, w), (w, a * 3)))(x)


def map_gradients(function, x, w):
    return oplib.vmap(lambda a: grad(push(function, (a, a * w), (w, a)).square().sum(), a)[0])(x)


def map_pushed_gradients(function, x, w):
    def slope(a):
        return grad(function(a, w).square().sum(), a, create_graph=True)[0]

    return push(oplib.vmap(slope), (x, x * w))


@pytest.mark.parametrize("program", [map_outside, map_inside, map_gradients, map_pushed_gradients])
def test_tangents_go_through_the_rule(program, x, w):
    found, expected = program(PushedSinTimes.apply, x, w), program(lambda a, b: a.sin() * b, x, w)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy())
    if expected.requires_grad:
        ours, theirs = (grad(tangent.square().sum(), (x, w)) for tangent in (found, expected))
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy())


def test_a_rule_of_a_function_without_jvp_refuses_tangents(x, w):
    with pytest.raises(MissingRuleError, match="its Function has no jvp"):
        map_outside(SinTimes.apply, x, w)


# Hooks ------------------------------------------------------------------------------------------------------


def test_a_hook_on_a_result_gets_the_gradient_of_one_example(x):
    shapes = []

    def function(a):
        y = Seven.apply(a)
        y.register_hook(lambda g: shapes.append(g.shape) or g * 2)
        return y

    found = grad(oplib.vmap(function)(x).sum(), x)[0]
    assert shapes == [(3,)]
    np.testing.assert_allclose(found.numpy(), 14 * X)


def test_a_hook_on_an_argument_runs_behind_the_call(x):
    def function(a):
        b = a * 1
        b.register_hook(lambda g: g * a)
        return Seven.apply(b)

    np.testing.assert_allclose(grad(oplib.vmap(function)(x).sum(), x)[0].numpy(), 7 * X * X)


def test_a_hook_of_the_node_is_refused_inside(x):
    def function(a):
        y = Seven.apply(a)
        y.grad_fn.register_hook(lambda results, grads: None)
        return y

    with pytest.raises(AutogradError, match=r"a hook of a node was registered inside vmap where .*outside"):
        oplib.vmap(function)(x)


def make_function(out_dim):
    """Returns ``2 * (x + w)``, or ``2 * w`` for None, whose rule puts the batch of the result at a place."""

    class Doubled(Function):
        @staticmethod
        def forward(x, w):
            return 2 * (x + w)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return 2 * g, 2 * g

        @staticmethod
        def vmap(info, in_dims, x, w):
            if out_dim is None:
                return 2 * w, None
            return oplib.movedim(2 * (x + w), 0, out_dim if -3 < out_dim < 2 else 0), out_dim

    return Doubled


@pytest.mark.parametrize("out_dim", [0, 1, -1, -2, None])
def test_the_batch_of_a_result_is_where_the_rule_says(out_dim):
    x = oplib.arange(6.0).reshape(3, 2).requires_grad_()
    w = oplib.tensor([10.0, 20.0], requires_grad=True)
    result = oplib.vmap(lambda one: make_function(out_dim).apply(one, w))(x)
    due = 2 * (np.arange(6).reshape(3, 2) * (out_dim is not None) + [10, 20])
    np.testing.assert_allclose(result.detach().numpy(), due)
    result.sum().backward()
    assert w.grad.tolist() == [6, 6]


@pytest.mark.parametrize("out_dim", [2, -3])
def test_a_place_that_the_result_does_not_have_is_refused(out_dim):
    with pytest.raises(DimensionError, match=f"Doubled: .* no batch of its output. Got {out_dim} for"):
        oplib.vmap(lambda one: make_function(out_dim).apply(one, oplib.ones(2)))(oplib.ones(3, 2))


def test_a_place_of_another_length_than_the_batch_is_refused():
    class Turned(make_function(0)):
        @staticmethod
        def vmap(info, in_dims, x, w):
            return x + w, 1

    with pytest.raises(DimensionError, match=r"Got 1 for f32\[3,2\], and the batch has 3"):
        oplib.vmap(lambda one: Turned.apply(one, oplib.ones(2)))(oplib.ones(3, 2))
