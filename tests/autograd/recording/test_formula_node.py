"""The node of compiled calls: what it keeps, checks and hands on, and how it is recorded itself."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad
from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.recording.formula_node import FormulaNode, call_recorded, make_node_class, record
from oplib.errors import AutogradError, SavedTensorError, TracingError
from oplib.library import custom_op

X, Y = np.array([0.3, -0.7], np.float32), np.array([2.0, 5.0], np.float32)


def leaf(values: Any) -> oplib.Tensor:
    return oplib.tensor(values, requires_grad=True)


def product_and_sine(x: Any, y: Any) -> Any:
    return x * y, jnp.sin(x)


def call(function: Any, *tensors: oplib.Tensor) -> Any:
    return call_recorded(ArrayFunction(function, "made"), tensors)


def test_a_call_without_need_of_gradients_is_not_recorded() -> None:
    (result,) = call(lambda x: (x * 2,), oplib.tensor(X))
    assert not result.requires_grad
    with oplib.no_grad():
        assert call(lambda x: (x * 2,), leaf(X))[0].grad_fn is None


@pytest.mark.spec("000.12")
def test_each_output_hangs_on_one_node_at_its_own_slot() -> None:
    product, sine = call(product_and_sine, leaf(X), leaf(Y))
    assert product.grad_fn is sine.grad_fn
    assert (product.output_nr, sine.output_nr) == (0, 1)
    assert product.grad_fn.name() == "madeBackward"


def test_an_integer_output_is_no_part_of_the_graph() -> None:
    doubled, place = call(lambda x: (x * 2, jnp.argmax(x)), leaf(X))
    assert doubled.requires_grad
    assert not place.requires_grad
    assert place.grad_fn is None


def test_gradients_of_several_outputs_arrive_together() -> None:
    x, y = leaf(X), leaf(Y)
    product, sine = call(product_and_sine, x, y)
    (product.sum() + sine.sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), Y + np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(y.grad.numpy(), X, rtol=1e-6)


def test_an_output_that_is_not_used_counts_as_zero() -> None:
    x, y = leaf(X), leaf(Y)
    call(product_and_sine, x, y)[1].sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X), rtol=1e-6)
    assert y.grad.tolist() == [0.0, 0.0]


@pytest.mark.spec("000.4")
def test_constants_have_no_edge_and_get_no_gradient() -> None:
    x, y = leaf(X), oplib.tensor(Y)
    (result,) = call(lambda x, y: (x * y,), x, y)
    assert [edge is None for edge in result.grad_fn.edges] == [False, True]
    result.sum().backward()
    assert y.grad is None


def test_a_saved_input_that_was_written_is_noticed_and_one_that_was_not_saved_is_not() -> None:
    x, y = leaf(X), leaf(Y)
    (result,) = call(lambda x, y: (x * 2 + jnp.sin(y),), x, y)
    with oplib.no_grad():
        x.zero_()
    oplib.autograd.grad(result.sum(), x, retain_graph=True)
    with oplib.no_grad():
        y.zero_()
    with pytest.raises(SavedTensorError, match=r"madeBackward.*at version 1, expected version 0"):
        result.sum().backward()


@pytest.mark.spec("E.6")
def test_a_second_pass_over_freed_values_is_refused() -> None:
    x = leaf(X)
    (result,) = call(lambda x: (jnp.sin(x),), x)
    loss = result.sum()
    loss.backward()
    with pytest.raises(SavedTensorError, match=r"second time.*madeBackward.*retain_graph=True"):
        result.sum().backward()


def test_a_node_that_saved_nothing_can_run_again() -> None:
    x = leaf(X)
    (result,) = call(lambda x: (x * 2,), x)
    result.sum().backward()
    result.sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_under_create_graph_saved_inputs_and_outputs_have_their_history() -> None:
    x, y = leaf(X), leaf(Y)
    (result,) = call(lambda x, y: (jnp.exp(x) * y,), x, y)
    (grad,) = oplib.autograd.grad(result.sum(), x, create_graph=True)
    by_x, by_y = oplib.autograd.grad(grad.sum(), (x, y))
    np.testing.assert_allclose(by_x.numpy(), np.exp(X) * Y, rtol=1e-6)
    np.testing.assert_allclose(by_y.numpy(), np.exp(X), rtol=1e-6)


def test_under_create_graph_a_gradient_that_is_only_passed_on_keeps_its_history() -> None:
    x, y, w = leaf(X), leaf(Y), leaf(X)
    entering = w * 2
    total = (x + y).clone()
    by_x, by_y = oplib.autograd.grad(total, (x, y), entering, create_graph=True)
    assert by_x.grad_fn is by_y.grad_fn is entering.grad_fn
    assert by_x is not entering
    (by_w,) = oplib.autograd.grad((by_x * by_x + by_y).sum(), w)
    np.testing.assert_allclose(by_w.numpy(), 8 * X + 2, rtol=1e-6)


def test_a_gradient_that_is_passed_on_to_several_places_is_not_changed_by_a_hook_at_one() -> None:
    x, y = leaf(X), leaf(Y)
    first, second = x * 1, y * 1
    first.register_hook(lambda grad: grad * 10)
    total = first + second
    by_x, by_y = oplib.autograd.grad(total.sum(), (x, y), create_graph=True)
    assert (by_x.tolist(), by_y.tolist()) == ([10.0, 10.0], [1.0, 1.0])


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_that_is_passed_on_to_several_places_may_be_written_at_one(create_graph: bool) -> None:
    x, y, w = leaf(X), leaf(Y), leaf(X)
    entering, first = w * 1, x * 1
    first.register_hook(lambda grad: (grad.mul_(10), None)[1])
    by_x, by_y = oplib.autograd.grad(first + y, (x, y), entering, create_graph=create_graph)
    np.testing.assert_allclose(by_x.numpy(force=True), 10 * X)
    for kept in (by_y, entering):
        np.testing.assert_array_equal(kept.numpy(force=True), X)


def test_a_leaf_that_is_passed_on_as_a_gradient_may_not_be_written_and_has_a_derivative() -> None:
    x, y, w = leaf(X), leaf(Y), leaf(X)
    first = x * 1
    by_x, by_y = oplib.autograd.grad(first + y * y, (x, y), w, create_graph=True)
    (by_w,) = oplib.autograd.grad((by_x * 3 + by_y).sum(), w, retain_graph=True)
    np.testing.assert_allclose(by_w.numpy(), 3 + 2 * Y)
    first.register_hook(lambda grad: (grad.mul_(10), None)[1])
    with pytest.raises(AutogradError, match="leaf"):
        oplib.autograd.grad(first + y, (x, y), w, create_graph=True)
    np.testing.assert_array_equal(w.numpy(force=True), X)


def test_saved_tensors_of_a_leaf_stand_for_the_leaf_itself() -> None:
    x = leaf(X)
    (result,) = call(lambda x: (jnp.sin(x),), x)
    (saved,) = result.grad_fn.linked_residuals()
    saved.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_edges_to_leaves_are_made_when_somebody_looks() -> None:
    for _ in range(4):  # at first by the complete path, and then by the fast path
        x = leaf(X)
        result = x * 2
        node: Any = result.grad_fn
        assert isinstance(node, FormulaNode)
        assert x._accumulator is None
        assert node.edges[0][0].variable is x
        assert node.edges is node.edges


@pytest.mark.spec("000.3")
def test_a_node_class_carries_the_name() -> None:
    cls = make_node_class("TwiceBackward")
    plan_and_outputs = ArrayFunction(lambda x: (x * 2,), "twice").recorder((True,))(jnp.asarray(X))
    (result,) = record(cls, plan_and_outputs, [leaf(X)], [jnp.asarray(X)])
    assert type(result.grad_fn) is cls
    assert result.grad_fn.name() == "TwiceBackward"


@pytest.mark.spec("000.9")
def test_nodes_are_numbered_in_the_order_of_their_calls() -> None:
    x = leaf(X)
    (first,) = call(lambda x: (x * 2,), x)
    (second,) = call(lambda x: (x * 2,), first)
    assert second.grad_fn.sequence_nr > first.grad_fn.sequence_nr


@pytest.mark.spec("D.13")
def test_under_a_trace_a_result_may_keep_its_gradient() -> None:
    @jax.jit
    def step(array: Any) -> Any:
        x = oplib.Tensor.from_array(array, requires_grad=True)
        y = x.sin()
        y.retain_grad()
        cut = y.detach().requires_grad_(True)
        ((y * 2).sum() + (cut * 3).sum()).backward()
        return x.grad.array, y.grad.array, cut.grad.array

    by_x, by_y, by_cut = step(X)
    np.testing.assert_allclose(by_x, 2 * np.cos(X), rtol=1e-6)
    assert by_y.tolist() == [2.0, 2.0]
    assert by_cut.tolist() == [3.0, 3.0]


@pytest.mark.spec("D.13")
def test_a_traced_gradient_is_not_stored_in_a_result_from_outside() -> None:
    y = leaf(X).sin()
    y.retain_grad()
    with pytest.raises(TracingError, match="a traced gradient would be stored in the tensor"):
        jax.jit(lambda a: (y * oplib.Tensor.from_array(a)).sum().backward())(X)


def test_a_saved_leaf_stands_for_the_leaf_after_the_graph_is_gone() -> None:
    for _ in range(4):  # by the complete path, and by the fast path
        x = leaf(X)
        (result,) = call(lambda x: (jnp.sin(x),), x)
        (saved,) = result.grad_fn.linked_residuals()
        product = saved * 3.0
        del result, saved
        product.sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]


def test_a_recorded_call_carries_tangents() -> None:
    x, y = leaf(X), oplib.tensor(Y)
    with forward_ad.dual_level():
        product, sine = call(product_and_sine, forward_ad.make_dual(x, oplib.tensor(Y)), y)
        tangents = [forward_ad.unpack_dual(one).tangent for one in (product, sine)]
        (plain,) = call(lambda x: (jnp.sin(x),), x)
        assert forward_ad.unpack_dual(plain).tangent is None
    _, expected = jax.jvp(lambda x: product_and_sine(x, Y), (X,), (Y,))
    for one, other in zip(tangents, expected, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-6)


def make_sine() -> Any:
    """Makes a sine whose formula saves the cosine, a value that is neither an input nor an output."""

    @custom_op
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    sine.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(jnp.cos(inputs[0])),
    )
    return sine


def test_a_saved_intermediate_is_differentiated_again() -> None:
    x = leaf(X)
    (first,) = oplib.autograd.grad(make_sine()(x).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), -np.sin(X), rtol=1e-6)


def test_a_write_into_what_an_intermediate_depends_on_matters_only_when_that_is_computed_again() -> None:
    x, sine = leaf(X), make_sine()
    y = [sine(written := x * 1).sum() for _ in range(2)]
    written.mul_(2)
    (gradient,) = oplib.autograd.grad(y[1], x, retain_graph=True)
    np.testing.assert_allclose(gradient.numpy(), np.cos(X), rtol=1e-6)
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        oplib.autograd.grad(y[1], x, create_graph=True)
    oplib.autograd.grad(y[0], x, create_graph=True)  # its own value was not written
