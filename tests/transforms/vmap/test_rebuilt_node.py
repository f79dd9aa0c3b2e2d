"""Backwards in Python inside of a map: traced once for one example, and mapped in every pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Function, compiled_autograd, grad
from oplib.errors import AutogradError, SavedTensorError

from .rows import W, X

pytestmark = pytest.mark.usefixtures("with_64_bits")


class SinTimes(Function):
    """``x.sin() * y``, whose backward counts its runs."""

    generate_vmap_rule = True
    runs = 0

    @staticmethod
    def forward(x, y):
        return x.sin() * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        SinTimes.runs += 1
        x, y = ctx.saved_tensors
        return g * x.cos() * y, g * x.sin()


class Halves(Function):
    """Two results and a number of each row that has no gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 2, x * 3, (x > 0.5).sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx, g, h, _):
        return g * 2 + h * 3


class Unsaved(Function):
    """Reads a tensor in backward that it has not saved."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.y = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.y, None


class TimesThree(Function):
    """Reads nothing but a number of Python's in backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 3.0

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 3.0


# Functions --------------------------------------------------------------------------------------------------


def test_first_and_second_gradients_of_a_function_are_those_of_jax(x, w):
    y = oplib.vmap(lambda a: SinTimes.apply(a, w))(x)
    loss = lambda x, w: ((jnp.sin(x) * w) ** 2).sum()  # noqa: E731
    first = grad((y * y).sum(), (x, w), create_graph=True)
    second = grad((first[0] * first[0]).sum() + (first[1] * first[1]).sum(), (x, w))
    penalty = lambda x, w: sum((one**2).sum() for one in jax.grad(loss, (0, 1))(x, w))  # noqa: E731
    due = (*jax.grad(loss, (0, 1))(X, W), *jax.grad(penalty, (0, 1))(X, W))
    for one, other in zip((*first, *second), due, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-10)


def test_the_backward_of_a_function_runs_once_however_many_passes_there_are(x, w):
    SinTimes.runs = 0
    y = oplib.vmap(lambda a: SinTimes.apply(a, w))(x)
    found = [grad(y.sum(), x, retain_graph=True)[0] for _ in range(3)]
    assert SinTimes.runs == 1
    for one in found:
        np.testing.assert_allclose(one.numpy(), np.cos(X) * W)


def test_the_node_outside_has_the_name_of_that_inside_and_leads_to_the_same_leaves(x, w):
    y = oplib.vmap(lambda a: SinTimes.apply(a, w))(x)
    assert y.grad_fn.name() == "SinTimesBackward"
    assert [node.variable for node, _ in y.grad_fn.next_functions] == [x, w]


def test_a_result_without_a_gradient_counts_as_zeros(x):
    first, second, count = oplib.vmap(Halves.apply)(x)
    assert (count.tolist(), count.requires_grad) == ([2, 3], False)
    assert grad(first.sum(), x, retain_graph=True)[0].tolist() == [[2.0] * 3] * 2
    assert grad(second.sum(), x, retain_graph=True)[0].tolist() == [[3.0] * 3] * 2
    assert grad((first + second).sum(), x)[0].tolist() == [[5.0] * 3] * 2


def test_a_function_in_nested_maps_has_the_gradient_of_each_example(w):
    cube = np.arange(12.0).reshape(2, 2, 3) / 7
    t = oplib.tensor(cube, requires_grad=True)
    y = oplib.vmap(oplib.vmap(lambda a: SinTimes.apply(a, w)))(t)
    by_t, by_w = grad((y * y).sum(), (t, w))
    due = jax.grad(lambda t, w: ((jnp.sin(t) * w) ** 2).sum(), (0, 1))(cube, W)
    np.testing.assert_allclose(by_t.numpy(), due[0], rtol=1e-10)
    np.testing.assert_allclose(by_w.numpy(), due[1], rtol=1e-10)


def test_a_function_in_nested_maps_has_the_second_gradient_of_each_example(w):
    cube = np.arange(12.0).reshape(2, 2, 3) / 7 + 0.1
    t = oplib.tensor(cube, requires_grad=True)
    y = oplib.vmap(oplib.vmap(lambda a: SinTimes.apply(a, w)))(t)
    assert y.grad_fn.name() == "SinTimesBackward"
    first = grad((y * y).sum(), (t, w), create_graph=True)
    second = grad((first[0] * first[0]).sum() + (first[1] * first[1]).sum(), (t, w))
    loss = lambda t, w: ((jnp.sin(t) * w) ** 2).sum()  # noqa: E731
    penalty = lambda t, w: sum((one**2).sum() for one in jax.grad(loss, (0, 1))(t, w))  # noqa: E731
    for one, other in zip(second, jax.grad(penalty, (0, 1))(cube, W), strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-9)


class SineByCosine(Function):
    """A sine. Its backward reads a cosine that is no input, no output, and on no path to the result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, cosine):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, g):
        (cosine,) = ctx.saved_tensors
        return g * cosine, None


def test_a_saved_tensor_off_the_path_to_the_results_has_its_history_outside(x):
    y = oplib.vmap(lambda a: SineByCosine.apply(a, a.cos()))(x)
    (first,) = grad(y.sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), -np.sin(X), rtol=1e-12)


def test_a_tensor_that_a_function_has_saved_may_not_be_written_after_the_map(x):
    held = oplib.tensor(W)
    y = oplib.vmap(lambda a: SinTimes.apply(a, held))(x)
    held.add_(1)
    with pytest.raises(SavedTensorError, match=r"SinTimesBackward: .*modified by an inplace operation"):
        y.sum().backward()


class Scaled(Function):
    """A product with a number, which the class holds. Its backward computes in two steps."""

    generate_vmap_rule = True
    number = 3.0

    @staticmethod
    def forward(x):
        return x * Scaled.number

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g * Scaled.number) / (x / x)


def test_a_backward_of_the_same_steps_is_compiled_once_and_one_of_others_is_not_mistaken_for_it(x):
    for number in (3.0, 3.0, 3.0, 4.0, -0.0, 0.0, 0.0, -0.0, 3.0):
        Scaled.number = number
        y = oplib.vmap(Scaled.apply)(x)
        found = grad(y.sum(), x)[0].numpy()
        np.testing.assert_array_equal(
            np.copysign(1, found) * (1 + abs(found)), np.copysign(1 + abs(number), number)
        )


def test_a_backward_that_is_traced_again_is_compiled_and_later_passes_find_it(x):
    t = oplib.tensor(np.arange(10.0).reshape(2, 5) + 1, requires_grad=True)  # a shape of this test alone
    Scaled.number = 3.0
    # JAX may first trace what its later traces find, so the first trace may be like no other.
    plans = [oplib.vmap(Scaled.apply)(t).grad_fn.plan for _ in range(4)]
    assert plans[0] is not plans[2]
    assert plans[2] is plans[3]
    assert [plan.backward((True,)).compiled for plan in (plans[0], plans[3])] == [False, True]


# Nodes of views ---------------------------------------------------------------------------------------------


def shift(a, w):
    """Writes into views, views of views and several views."""
    b = a.clone()
    b[1:].mul_(a[0])
    first, *rest = (b * w).unbind()
    return (b[:2].unsqueeze(0) * first).sum() + sum(rest) * b.as_strided((2,), (1,), 1).sum()


def shift_jax(a, w):
    b = a.at[1:].multiply(a[0])
    product = b * w
    return (b[:2] * product[0]).sum() + product[1:].sum() * b[1:].sum()


def test_writes_into_views_and_views_have_the_gradients_of_jax_to_second_order(x, w):
    loss = lambda x, w: (jax.vmap(shift_jax, (0, None))(x, w) ** 2).sum()  # noqa: E731
    penalty = lambda x, w: sum((one**2).sum() for one in jax.grad(loss, (0, 1))(x, w))  # noqa: E731
    y = oplib.vmap(shift, (0, None))(x, w)
    first = grad((y * y).sum(), (x, w), create_graph=True)
    second = grad(sum((one * one).sum() for one in first), (x, w))
    due = (*jax.grad(loss, (0, 1))(X, W), *jax.grad(penalty, (0, 1))(X, W))
    for one, other in zip((*first, *second), due, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-9)


def test_a_compiled_pass_contains_the_views_of_a_map_and_finds_its_program_again(x, w):
    counters = compiled_autograd.counters["compiled_autograd"]
    found = []
    for _ in range(3):
        with compiled_autograd.enable():
            found.append(grad(oplib.vmap(shift, (0, None))(x, w).sum(), x)[0].numpy())
        if len(found) == 1:
            compiles = counters["compiles"]
    assert counters["compiles"] == compiles
    due = jax.grad(lambda x: jax.vmap(shift_jax, (0, None))(x, W).sum())(X)
    for one in found:
        np.testing.assert_allclose(one, due, rtol=1e-12)


def test_a_function_is_differentiated_inside_too(x, w):
    inside = oplib.vmap(lambda a: grad(SinTimes.apply(a, w).sum(), a, create_graph=True)[0])(x)
    np.testing.assert_allclose(inside.detach().numpy(), np.cos(X) * W)
    np.testing.assert_allclose(grad(inside.sum(), x)[0].numpy(), -np.sin(X) * W)


def test_what_a_function_reads_unsaved_serves_once(x, w):
    y = oplib.vmap(lambda a: Unsaved.apply(a, w))(x)
    assert grad(y.sum(), x, retain_graph=True)[0].tolist() == [W.tolist()] * 2
    with pytest.raises(
        AutogradError, match=r"UnsavedBackward: it was recorded inside vmap, .*save_for_backward"
    ):
        grad(y.sum(), x, create_graph=True)


def test_numbers_that_a_function_reads_unsaved_serve_twice(x):
    y = oplib.vmap(TimesThree.apply)(x)
    (first,) = grad((y * y).sum(), x, create_graph=True)
    assert grad(first.sum(), x)[0].tolist() == [[18.0] * 3] * 2


def test_a_function_is_freed_by_a_pass_that_does_not_retain_it(x, w):
    y = oplib.vmap(lambda a: SinTimes.apply(a, w))(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(X) * W)
    with pytest.raises(SavedTensorError, match=r"a second time\. SinTimesBackward: "):
        y.sum().backward()


def test_a_function_that_was_freed_inside_says_so_outside(x, w):
    def function(a):
        y = SinTimes.apply(a, w)
        grad(y.sum(), a)
        return y

    y = oplib.vmap(function)(x)
    with pytest.raises(SavedTensorError, match=r"a second time\. SinTimesBackward: "):
        grad(y.sum(), x)


def test_an_error_in_a_backward_is_raised_where_the_map_returns_and_leaves_no_map(x):
    class Broken(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ZeroDivisionError("in the backward")

    with pytest.raises((ZeroDivisionError, AutogradError)):
        oplib.vmap(Broken.apply)(x)
    assert oplib.vmap(lambda a: a * 2)(x).tolist() == (2 * X).tolist()


# Hooks ------------------------------------------------------------------------------------------------------


def test_a_hook_inside_gets_the_gradient_of_one_example(x):
    shapes = []

    def function(a):
        b = a.sin()
        b.register_hook(lambda g: shapes.append(g.shape) or g / g.sum())
        return b * a.detach()

    found = grad(oplib.vmap(function)(x).sum(), x)[0]
    assert shapes == [(3,)]
    np.testing.assert_allclose(found.numpy(), X / X.sum(1, keepdims=True) * np.cos(X), rtol=1e-12)


def test_hooks_of_a_node_inside_run_before_and_after_it(x):
    def function(a):
        b = a.sin()
        b.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))
        b.grad_fn.register_hook(lambda results, grads: (results[0] * grads[0],))
        return b * 2

    found = grad(oplib.vmap(function)(x).sum(), x)[0]
    np.testing.assert_allclose(found.numpy(), 9 * np.cos(X), rtol=1e-12)


def test_a_hook_inside_runs_once_and_serves_every_pass(x):
    runs = []

    def function(a):
        b = a * 2
        b.register_hook(lambda g: runs.append(g) or g * 5)
        return b

    y = oplib.vmap(function)(x)
    for _ in range(2):
        assert grad(y.sum(), x, retain_graph=True)[0].tolist() == [[10.0] * 3] * 2
    assert len(runs) == 1


def test_a_hook_inside_on_a_tensor_that_is_not_mapped_is_asked_for_each_example(w, x):
    def function(a):
        b = w * 1
        b.register_hook(lambda g: g * g)
        return b * a

    found = grad(oplib.vmap(function)(x).sum(), w)[0]
    np.testing.assert_allclose(found.numpy(), (X * X).sum(0), rtol=1e-12)


def test_a_hook_of_a_node_is_refused_where_the_graph_goes_on_outside(x):
    def function(a):
        a.grad_fn.register_hook(lambda results, grads: None)
        return a * 2

    with pytest.raises(AutogradError, match=r"a hook of a node was registered inside vmap where .*outside"):
        oplib.vmap(function)(x * 1)


def differentiate(map_rows, function, orders):
    """Returns the gradients of a function of rows and of a weight, in several orders."""
    weight = oplib.tensor([1.0, 2.0, 3.0], dtype=oplib.float64, requires_grad=True)
    x = oplib.tensor(X / 10, requires_grad=True)
    result, found = map_rows(lambda row: function(row, weight))(x).sum(), []
    for order in range(orders):
        gradients = grad(result, [x, weight], create_graph=True)
        found += [gradient.detach().numpy() for gradient in gradients]
        result = sum((gradient * (order + 1)).sum() for gradient in gradients)
    return found


def loop_rows(function):
    return lambda x: oplib.stack([function(row) for row in x])


MADE = {
    "product": lambda row, w: row * w,
    "saved result": lambda row, w: (row * w).exp(),
    "several values": lambda row, w: row.softmax(0) * w,
    "view": lambda row, w: (row * w)[1:],
    "not mapped": lambda row, w: w * w,
    "written": lambda row, w: (row * w).mul_(row),
    "several results": lambda row, w: (row * w).max(0)[0],
    "function": lambda row, w: SinTimes.apply(row, w),
}


@pytest.mark.slow
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize(
    "change",
    [lambda g: g * 2, lambda g: g * g, lambda g: g * oplib.ones(())],
    ids=["scale", "square", "ones"],
)
def test_a_map_with_a_hook_is_differentiated_three_times_outside(made, change):
    def function(row, w):
        y = MADE[made](row, w)
        y.register_hook(change)
        return (y * y * y).sum() * (row * row).sum() * w.prod()

    found, expected = (differentiate(one, function, 3) for one in (oplib.vmap, loop_rows))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_map_with_hooks_of_a_node_is_differentiated_twice_outside(kind):
    def function(row, w):
        y = row * w
        if kind == "before":
            y.grad_fn.register_prehook(lambda grads: (grads[0] * grads[0],))
        else:
            y.grad_fn.register_hook(lambda results, grads: (results[0] * grads[0], results[1]))
        return (y * y).sum()

    found, expected = (differentiate(one, function, 2) for one in (oplib.vmap, loop_rows))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("made", ["product", "saved result", "view", "not mapped"])
@pytest.mark.parametrize("read", ["row", "weight"])
def test_a_hook_that_reads_a_tensor_with_a_history_is_refused_if_differentiated_twice_outside(made, read):
    def function(row, w):
        y = MADE[made](row, w)
        y.register_hook(lambda g: g * (row if read == "row" else w).sum())
        return (y * y).sum() * row.sum()

    def find_gradients(rows):
        w = oplib.tensor(W, requires_grad=True)
        x = oplib.tensor(X, requires_grad=True)
        return w, x, rows(lambda row: function(row, w))(x).sum()

    (w, x, found), (v, z, expected) = find_gradients(oplib.vmap), find_gradients(loop_rows)
    for one, other in zip(grad(found, [x, w], retain_graph=True), grad(expected, [z, v]), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    with pytest.raises(AutogradError, match=r"whose history is lost outside: .* that a hook reads"):
        grad(found, [x, w], create_graph=True)


def test_a_hook_in_a_map_may_be_differentiated_twice_inside():
    def square(row):
        y = row * row
        y.register_hook(lambda g: g * row)
        return (y * y).sum()

    def twice(row):
        (first,) = grad(square(row), row, create_graph=True)
        return grad(first.sum(), row)[0]

    x = oplib.tensor(X, requires_grad=True)
    assert oplib.vmap(twice)(x).tolist() == [twice(row).tolist() for row in x]


def test_a_hook_on_a_result_of_an_op_that_keeps_intermediates_is_refused_if_differentiated_twice(forget_ops):
    op = oplib.custom_op("rebuilt::keep", lambda x: jnp.sin(x), schema="(Tensor x) -> Tensor", compile=True)
    op.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(jnp.cos(inputs[0])),
    )
    x = oplib.tensor(X, requires_grad=True)

    def function(row):
        y = op(row)
        y.register_hook(lambda g: g * 2)
        return y.sum()

    result = oplib.vmap(function)(x).sum()
    np.testing.assert_allclose(grad(result, x, retain_graph=True)[0].numpy(), 2 * np.cos(X))
    with pytest.raises(AutogradError, match="that an op with a hook has computed and kept"):
        grad(result, x, create_graph=True)
