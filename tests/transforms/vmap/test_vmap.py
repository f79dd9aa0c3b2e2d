"""``oplib.vmap``: what it does beyond torch, its errors' texts, and that nothing is left behind by one.

What it shares with torch is compared with it in ``tests/parity/test_vmap_of_tensors.py``.
"""

import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad, grad, graph
from oplib.errors import AutogradError, SavedTensorError
from oplib.modes import modes
from oplib.transforms.vmap.vmap import map_examples
from tests.threads import run_in_threads

from .rows import ROWS, WEIGHTS, Seven, cube


@pytest.fixture
def x():
    return oplib.tensor(ROWS, requires_grad=True)


@pytest.fixture
def w():
    return oplib.tensor(WEIGHTS, requires_grad=True)


jax_grad = jax.vmap(jax.grad(lambda a, w: (a**3 * w).sum()), (0, None))


# The tape inside --------------------------------------------------------------------------------------------


def test_grad_inside_is_per_example(x, w):
    found = oplib.vmap(lambda a: grad(cube(a, w), a)[0])(x)
    np.testing.assert_allclose(found.detach().numpy(), jax_grad(ROWS, WEIGHTS), rtol=1e-6)


def test_grad_inside_by_what_is_closed_over_is_per_example_too(x, w):
    found = oplib.vmap(lambda a: grad(cube(a, w), w)[0])(x)
    np.testing.assert_allclose(found.detach().numpy(), ROWS**3, rtol=1e-6)


def test_gradients_inside_can_be_differentiated_from_outside(x, w):
    found = oplib.vmap(lambda a: grad(cube(a, w), a, create_graph=True)[0])(x)
    by_x, by_w = grad((found * found).sum(), (x, w))
    due = jax.grad(lambda x, w: (jax_grad(x, w) ** 2).sum(), (0, 1))(ROWS, WEIGHTS)
    np.testing.assert_allclose(by_x.numpy(), due[0], rtol=1e-5)
    np.testing.assert_allclose(by_w.numpy(), due[1], rtol=1e-5)


def test_a_hessian_inside_is_per_example(x, w):
    def hessian_times_ones(a):
        (first,) = grad(cube(a, w), a, create_graph=True)
        return grad(first.sum(), a)[0]

    found = oplib.vmap(hessian_times_ones)(x)
    np.testing.assert_allclose(found.detach().numpy(), 6 * ROWS * WEIGHTS, rtol=1e-6)


@pytest.mark.slow
def test_three_orders_follow_from_outside(x, w):
    total = oplib.vmap(lambda a: (a * w).exp().sum())(x).sum()
    jax_total = lambda x, w: jnp.exp(x * w).sum()  # noqa: E731
    for _ in range(3):
        (by_w,) = grad(total, w, create_graph=True)
        total = by_w.sum()
        jax_total = lambda x, w, inner=jax_total: jax.grad(inner, 1)(x, w).sum()  # noqa: E731
    np.testing.assert_allclose(by_w.detach().numpy().sum(), jax_total(ROWS, WEIGHTS), rtol=1e-4)


@pytest.mark.spec("004.10", "D.13")
def test_backward_inside_raises_and_leaves_no_gradient(x, w):
    with pytest.raises(
        AutogradError, match=r"backward: it cannot be called inside vmap\..*use grad\(\) inside"
    ):
        oplib.vmap(lambda a: cube(a, w).backward())(x)
    assert (x.grad, w.grad, modes.state.map_levels) == (None, None, ())


# The graph outside ------------------------------------------------------------------------------------------


def test_the_graph_of_the_function_is_found_outside(x, w):
    y = oplib.vmap(lambda a: (a * w).exp())(x)
    product = y.grad_fn.next_functions[0][0]
    assert (y.grad_fn.name(), product.name()) == ("ExpBackward0", "MulBackward0")
    assert [node.variable is one for (node, _), one in zip(product.next_functions, (x, w), strict=True)] == [
        True
    ] * 2


def test_hooks_outside_see_the_gradients_of_all_examples(x, w):
    y = oplib.vmap(lambda a: a * w)(x)
    shapes = []
    y.grad_fn.register_hook(lambda inputs, outputs: shapes.append([one.shape for one in (*inputs, *outputs)]))
    y.sum().backward()
    assert shapes == [[(2, 3), (3,), (2, 3)]]


def test_hooks_inside_change_the_gradient_of_each_example(x):
    def function(a):
        a.register_hook(lambda g: g * 10)
        b = a * 2
        b.register_hook(lambda g: g * a)
        b.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))
        return b.sum()

    (found,) = grad(oplib.vmap(function)(x).sum(), x)
    np.testing.assert_allclose(found.numpy(), 10 * 2 * (ROWS + 1))


def test_hooks_inside_of_an_argument_that_is_no_leaf_run_too(x):
    def function(a):
        a.register_hook(lambda g: g * 10)
        return (a * 2).sum()

    assert grad(oplib.vmap(function)(x * 1).sum(), x)[0].tolist() == [[20.0] * 3] * 2


def test_a_freed_graph_says_so(x, w):
    def function(a):
        y = (a * w).exp()
        grad(y.sum(), a)
        return y

    y = oplib.vmap(function)(x)
    with pytest.raises(SavedTensorError, match="Trying to backward through the graph a second time"):
        y.sum().backward()


def test_a_pass_frees_the_graph_and_retain_graph_keeps_it(x):
    total = oplib.vmap(lambda a: a.exp().sum())(x).sum()
    total.backward(retain_graph=True)
    total.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(ROWS), rtol=1e-6)
    with pytest.raises(SavedTensorError, match="a second time"):
        total.backward()


def test_an_argument_that_was_saved_may_not_be_written_before_the_backward(x):
    a = x * 1
    y = oplib.vmap(lambda row: row * row)(a)
    a.add_(1)
    with pytest.raises(
        SavedTensorError, match=r"MulBackward0: .*modified by an inplace operation\. Got f32\[2,3\]"
    ):
        y.sum().backward()


def test_one_tensor_given_twice_is_one_inside():
    y = oplib.zeros(2, 3)
    first, second = oplib.vmap(lambda a, b: (a.add_(1), b * 1))(y, y)
    assert first.tolist() == second.tolist() == y.tolist() == [[1.0] * 3] * 2


def test_writing_into_an_argument_mapped_over_another_dim_reaches_it(x):
    y = x * 1
    oplib.vmap(lambda a: a.mul_(3), in_dims=1)(y)
    assert y.tolist() == (3 * ROWS).tolist()
    assert grad(y.sum(), x)[0].tolist() == [[3.0] * 3] * 2


def test_saved_tensor_hooks_around_a_map_are_asked(x):
    packed = []
    with graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):
        y = oplib.vmap(lambda a: a * a)(x)
    assert packed
    assert set(packed) == {(3,)}
    np.testing.assert_allclose(grad(y.sum(), x)[0].numpy(), 2 * ROWS)


# Forward mode and other transformations ---------------------------------------------------------------------


def test_tangents_pass_through_a_map(w):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(oplib.tensor(ROWS), oplib.ones(2, 3))
        y = oplib.vmap(lambda a: a * a * w, in_dims=0, out_dims=1)(dual)
        tangent = forward_ad.unpack_dual(y).tangent
    np.testing.assert_allclose(tangent.detach().numpy(), (2 * ROWS * WEIGHTS).T)


def test_forward_mode_goes_over_a_backward_through_a_map(x, w):
    with forward_ad.dual_level():
        forward_ad.make_dual(x, oplib.ones(2, 3))
        dual = forward_ad.make_dual(x, oplib.ones(2, 3))
        y = oplib.vmap(lambda a: cube(a, w))(dual)
        (first,) = grad(y.sum(), w, create_graph=True)
        tangent = forward_ad.unpack_dual(first).tangent
    np.testing.assert_allclose(tangent.detach().numpy(), (3 * ROWS**2).sum(0), rtol=1e-6)


def test_a_map_is_traced_by_jax(w):
    def step(rows):
        t = oplib.Tensor.from_array(rows, requires_grad=True)
        return grad(oplib.vmap(lambda a: cube(a, w))(t).sum(), t)[0].array

    due = jax_grad(ROWS, WEIGHTS)
    for transformed in (step, jax.jit(step)):
        np.testing.assert_allclose(transformed(jnp.asarray(ROWS)), due, rtol=1e-6)
    second = jax.grad(lambda rows: step(rows).sum())(jnp.asarray(ROWS))
    np.testing.assert_allclose(second, 6 * ROWS * WEIGHTS, rtol=1e-6)


def test_inside_one_example_is_an_array_of_jax(x):
    y = oplib.vmap(lambda a: oplib.Tensor.from_array(jnp.sin(a.array)))(x)
    np.testing.assert_allclose(y.numpy(), np.sin(ROWS), rtol=1e-6)


def test_a_factory_inside_makes_tensors_that_take_in_mapped_values(x):
    y = oplib.vmap(lambda a: oplib.zeros(3).add_(a))(x)
    assert y.tolist() == ROWS.tolist()
    assert grad(y.sum(), x)[0].tolist() == [[1.0] * 3] * 2


def test_the_mapped_function_has_the_name_of_the_function():
    assert oplib.vmap(cube).__name__ == "cube"


# What else stands on the tape -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("dim", [0, 1])
def test_intermediates_of_a_formula_are_linked_again_outside(dim):
    def normalise(x, scale):
        return x * scale * jax.lax.rsqrt((x * x).mean() + 1e-2)

    def setup(ctx, inputs, output):
        x, scale = inputs
        ctx.save_for_backward(x, scale, jax.lax.rsqrt((x * x).mean() + 1e-2))

    def backward(ctx, g):
        x, scale, inverse = ctx.saved_tensors
        normal, weighted = x * inverse, g * scale
        return inverse * (weighted - normal * (weighted * normal).mean()), g * normal

    normalise.__annotations__ = {"x": jax.Array, "scale": jax.Array, "return": jax.Array}
    op = oplib.custom_op("transforms_vmap::normalise", normalise)
    op.register_autograd(backward, setup_context=setup)
    rows = oplib.tensor(np.moveaxis(ROWS, 0, dim).copy(), requires_grad=True)
    scale = oplib.tensor(WEIGHTS, requires_grad=True)
    y = oplib.vmap(lambda a: op(a, scale), in_dims=dim)(rows)
    first = grad((y * y).sum(), (rows, scale), create_graph=True)
    second = grad((first[0] * first[0]).sum() + (first[1] * first[1]).sum(), (rows, scale))

    def penalty(x, s):
        total = lambda x, s: (jax.vmap(normalise, (0, None))(x, s) ** 2).sum()  # noqa: E731
        by_x, by_s = jax.grad(total, (0, 1))(x, s)
        return (by_x**2).sum() + (by_s**2).sum()

    due = jax.grad(penalty, (0, 1))(ROWS, WEIGHTS)
    np.testing.assert_allclose(np.moveaxis(second[0].numpy(), dim, 0), due[0], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(second[1].numpy(), due[1], rtol=1e-3, atol=1e-3)


def test_a_checkpoint_inside_computes_again_for_all_examples(x, w):
    def function(a):
        return oplib.utils.checkpoint.checkpoint(lambda b: (b * w).exp(), a, use_reentrant=False)

    found = grad(oplib.vmap(function)(x).sum(), (x, w))
    due = jax.grad(lambda x, w: jnp.exp(x * w).sum(), (0, 1))(ROWS, WEIGHTS)
    for one, other in zip(found, due, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5)


@pytest.mark.usefixtures("collector_off")
def test_nothing_of_a_map_waits_for_the_collector(x, w):
    held = []

    def function(a):
        b = (a * w).exp()
        held.extend([weakref.ref(b), weakref.ref(b.grad_fn)])
        return Seven.apply(b)[1:].sum()

    oplib.vmap(function)(x)
    held.clear()
    y = oplib.vmap(function)(x)
    assert [one() for one in held] == [None, None]
    held[:] = [weakref.ref(y), weakref.ref(y.grad_fn)]
    del y
    assert [one() for one in held] == [None, None]


def test_threads_map_side_by_side(x, w):
    function = oplib.vmap(lambda a: grad(cube(a, w), a)[0])
    due = function(x).tolist()
    assert run_in_threads(lambda _: function(x).tolist()) == [due] * 4


@pytest.mark.devices(8)
def test_examples_may_be_spread_over_an_explicit_axis():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    indices = oplib.Tensor.from_array(jax.device_put(np.arange(16, dtype=np.int32).reshape(8, 2) % 3, rows))
    table = oplib.tensor(np.arange(12, dtype=np.float32).reshape(3, 4)).to(
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    )
    result = oplib.vmap(lambda index: table[index] * 2)(indices)
    np.testing.assert_array_equal(result.numpy(), table.numpy()[indices.numpy()] * 2)
    assert result.sharding.is_equivalent_to(rows, 3)


@pytest.mark.parametrize("count", [1, 2])
def test_examples_of_any_number_of_tensors_are_mapped(count):
    tensors = [oplib.tensor(ROWS) * (1 + number) for number in range(count)]
    first, absent, alike = map_examples(lambda rows: (sum(rows).sum(), None, oplib.ones(1)), tensors)
    assert first.tolist() == sum(tensors).sum(1).tolist()
    assert absent is None
    assert alike.shape == (len(ROWS), 1)
