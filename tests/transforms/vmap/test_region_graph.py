"""The graph made again outside of a map: where its edges lead, what its nodes hold, when it is used up."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import grad
from oplib.autograd.graph import node_location, record_locations
from oplib.errors import SavedTensorError
from oplib.library import Library, custom_op, register_autograd
from oplib.transforms.vmap.region_graph import ValuePool

from .rows import W, X

pytestmark = pytest.mark.usefixtures("with_64_bits")


def assert_gradients_are_those_of_jax(function, jax_function, arrays, in_dims=0, out_dims=0):
    """Compares first and second gradients of a map with those of ``jax.vmap``."""
    tensors = [oplib.tensor(array, requires_grad=True) for array in arrays]
    y = oplib.vmap(function, in_dims, out_dims)(*tensors)
    mapped = jax.vmap(jax_function, in_dims, out_dims)
    np.testing.assert_allclose(y.detach().numpy(), mapped(*arrays), rtol=1e-12)
    places = tuple(range(len(arrays)))
    loss = lambda *given: (mapped(*given) ** 2).sum()  # noqa: E731
    first = grad((y * y).sum(), tensors, create_graph=True)
    due = jax.grad(loss, places)(*arrays)
    second = grad(sum((one * one).sum() for one in first), tensors)
    penalty = lambda *given: sum((one**2).sum() for one in jax.grad(loss, places)(*given))  # noqa: E731
    due_second = jax.grad(penalty, places)(*arrays)
    for one, other in zip((*first, *second), (*due, *due_second), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-9, atol=1e-12)


# Where edges lead -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dims", [(0, None), (1, None), (None, 0), (0, 0), (1, 0)], ids=str)
@pytest.mark.parametrize("out_dim", [0, 1])
def test_gradients_reach_mapped_and_unmapped_arguments(dims, out_dim):
    arrays = [X if dim == 0 else X.T.copy() if dim == 1 else W for dim in dims]
    assert_gradients_are_those_of_jax(
        lambda a, b: (a * b).sin() * a,
        lambda a, b: jnp.sin(a * b) * a,
        arrays,
        dims,
        out_dim,
    )


def test_gradients_of_nested_maps_reach_each_level():
    cube = np.arange(12.0).reshape(2, 2, 3) / 7 + 0.1
    assert_gradients_are_those_of_jax(
        lambda a, b: oplib.vmap(lambda c: (c * b).exp() * a.sum())(a),
        lambda a, b: jax.vmap(lambda c: jnp.exp(c * b) * a.sum())(a),
        [cube, W],
        (0, None),
    )


def test_an_edge_to_a_node_from_before_the_map_leads_to_that_very_node(x, w):
    scaled = w * 3
    y = oplib.vmap(lambda a: a * scaled)(x)
    assert y.grad_fn.next_functions[1][0] is scaled.grad_fn
    np.testing.assert_allclose(grad(y.sum(), w)[0].numpy(), 3 * X.sum(0))


def test_a_node_that_two_results_share_is_one_node_outside(x):
    def function(a):
        shared = a.sin()
        return shared * 2, shared * 3

    first, second = oplib.vmap(function)(x)
    shared = first.grad_fn.next_functions[0][0]
    assert shared.name() == "SinBackward0"
    assert second.grad_fn.next_functions[0][0] is shared
    np.testing.assert_allclose(grad((first + second).sum(), x)[0].numpy(), 5 * np.cos(X))


def test_what_is_recorded_and_leads_to_no_result_is_left_inside(x):
    held = []

    def function(a):
        held.append((a * 2).exp())
        return a * 3

    y = oplib.vmap(function)(x)
    (node,) = [one for one, _ in y.grad_fn.next_functions if one is not None]
    assert (y.grad_fn.name(), node.variable is x) == ("MulBackward0", True)


def test_a_leaf_made_inside_dies_with_the_map(x):
    def function(a):
        inner = a.detach().requires_grad_()
        return inner * a

    y = oplib.vmap(function)(x)
    assert [node is None for node, _ in y.grad_fn.next_functions] == [True, False]
    np.testing.assert_allclose(grad(y.sum(), x)[0].numpy(), X)


def test_a_result_that_is_the_same_for_all_examples_keeps_its_own_history(x, w):
    y, constant = oplib.vmap(lambda a: (a * 2, w), out_dims=(0, None))(x)
    assert y.requires_grad
    assert constant is w


def test_a_value_recorded_inside_that_is_the_same_for_all_examples_has_a_gradient(x, w):
    y = oplib.vmap(lambda a: (w * 2).exp() * a)(x)
    due = jax.grad(lambda w: (jnp.exp(2 * w) * X).sum())(W)
    np.testing.assert_allclose(grad(y.sum(), w)[0].numpy(), due, rtol=1e-12)


# What the nodes hold ----------------------------------------------------------------------------------------


def test_a_node_outside_has_the_metadata_that_was_noted_inside(x):
    def function(a):
        y = a.exp()
        y.grad_fn.metadata["note"] = "inside"
        return y

    assert oplib.vmap(function)(x).grad_fn.metadata == {"note": "inside"}


def test_a_node_outside_names_the_line_of_the_call_inside(x):
    with record_locations(True):
        y = oplib.vmap(lambda a: a.exp()[1:])(x)
    for node in (y.grad_fn, y.grad_fn.next_functions[0][0]):
        code, _ = node_location(node)
        assert code.co_filename == __file__


def test_nodes_outside_are_in_the_order_in_which_they_were_recorded(x):
    y = oplib.vmap(lambda a: a.sin().cos().exp())(x)
    numbers = []
    node = y.grad_fn
    while node.next_functions:
        numbers.append(node._sequence_nr())
        node = node.next_functions[0][0]
    assert len(numbers) == 3
    assert numbers == sorted(numbers, reverse=True)


def test_a_result_that_was_saved_may_not_be_written_before_the_backward(x):
    y = oplib.vmap(lambda a: a.exp())(x)
    y.mul_(2)
    with pytest.raises(SavedTensorError, match=r"ExpBackward0: .*modified by an inplace operation"):
        y.sum().backward()


def test_what_was_saved_and_then_written_inside_raises_outside(x):
    def function(a):
        b = a * 2
        y = b * b
        b.add_(1)
        return y

    y = oplib.vmap(function)(x)
    with pytest.raises(SavedTensorError, match=r"MulBackward0: .*modified by an inplace operation"):
        y.sum().backward()


def test_a_write_inside_that_nothing_has_saved_is_part_of_the_graph(x):
    def function(a):
        b = a * 2
        b.mul_(a)
        return b.sin()

    found = grad(oplib.vmap(function)(x).sum(), x)[0]
    np.testing.assert_allclose(found.numpy(), 4 * X * np.cos(2 * X * X), rtol=1e-12)


def test_a_view_inside_hands_its_gradient_to_the_items_it_shows(x):
    y = oplib.vmap(lambda a: a[1:].exp() * a[0])(x)
    due = jax.grad(lambda x: (jnp.exp(x[:, 1:]) * x[:, :1]).sum())(X)
    np.testing.assert_allclose(grad(y.sum(), x)[0].numpy(), due, rtol=1e-12)


# When it is used up -----------------------------------------------------------------------------------------


def test_two_passes_need_retain_graph_and_add_up(x, w):
    y = oplib.vmap(lambda a: (a * w).exp().sum())(x)
    y.sum().backward(retain_graph=True)
    once = w.grad.clone()
    y.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * once.numpy())
    with pytest.raises(SavedTensorError, match="a second time"):
        y.sum().backward()


def test_each_call_of_a_map_has_a_graph_of_its_own(x, w):
    mapped = oplib.vmap(lambda a: (a * w).exp())
    first, second = mapped(x), mapped(x)
    assert first.grad_fn is not second.grad_fn
    first.sum().backward()
    second.sum().backward()
    due = 2 * jax.grad(lambda w: jnp.exp(X * w).sum())(W)
    np.testing.assert_allclose(w.grad.numpy(), due, rtol=1e-12)


def test_a_traced_value_stands_in_the_pool_once_and_any_other_is_the_same_outside():
    pool, given = ValuePool(), np.ones(2)

    def look(index, row):
        doubled = row * 2
        for value in (row, doubled, row, given):
            pool.add(value)
        pool.read(index)
        assert len(pool.values) == 2
        found = [pool.find(value) for value in (row, doubled, given)]
        assert [one.is_batched for one in found] == [True, True, False]
        assert [one.array.shape for one in found] == [(2, 3), (2, 3), (2,)]
        assert found[2].array is given
        return index

    jax.vmap(look)(np.arange(2), X)


@pytest.mark.parametrize("compiles", [False, True], ids=["engine", "compiled_autograd"])
def test_a_graph_made_by_a_map_runs_the_formula_that_is_registered_now(compiles, forget_ops):
    library = Library("mapped", "FRAGMENT")
    op = custom_op("mapped::double", lambda x: x * 2, schema="(Tensor x) -> Tensor", compile=True)
    register_autograd(op, lambda ctx, grad: grad * 2, lib=library)
    x = oplib.ones(2, 3, requires_grad=True)
    y = oplib.vmap(op)(x).sum()

    def differentiate():
        if not compiles:
            return grad(y, x, retain_graph=True)[0]
        with oplib.autograd.compiled_autograd.enable(lambda function: function):
            return grad(y, x, retain_graph=True)[0]

    assert differentiate().unique().tolist() == [2]
    library._destroy()
    register_autograd(op, lambda ctx, grad: grad * 5)
    assert differentiate().unique().tolist() == [5]
