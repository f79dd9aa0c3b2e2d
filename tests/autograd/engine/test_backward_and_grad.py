"""``backward`` and ``grad``: what they take and give, and what traced gradients may not do."""

import warnings
from collections import OrderedDict

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import backward, forward_ad, grad
from oplib.autograd.engine import backward_and_grad as reverse
from oplib.autograd.graph import GradientEdge, get_gradient_edge
from oplib.errors import AutogradError, GradientTypeError, GradientValueError, SavedTensorError, TracingError


@pytest.fixture
def a():
    return oplib.tensor([1.0, 2.0], requires_grad=True)


@pytest.mark.spec("001.7")
def test_backward_adds_to_grad(a):
    (a * a).sum().backward()
    (a * 3).sum().backward()
    assert a.grad.tolist() == [5.0, 7.0]


@pytest.mark.spec("001.7")
def test_backward_of_several_tensors_adds_up(a):
    loss = (a * a).sum()
    backward([loss, loss * 2])
    assert a.grad.tolist() == [6.0, 12.0]


@pytest.mark.spec("001.5", "001.7")
def test_a_gradient_may_be_none_for_a_scalar_only(a):
    loss = (a * a).sum()
    backward([loss, loss * 2], [None, oplib.tensor(5.0)])
    assert a.grad.tolist() == [22.0, 44.0]
    with pytest.raises(AutogradError, match=r"implicitly created only for scalar outputs. Got f32\[2\]"):
        backward(a * a)


@pytest.mark.spec("001.7")
def test_backward_of_nothing_does_nothing():
    x = oplib.tensor([1.0], requires_grad=True)
    backward([])
    backward([], inputs=[x])
    assert x.grad is None


@pytest.mark.spec("004.10")
def test_too_few_gradients_raise_with_both_counts(a):
    loss = (a * a).sum()
    with pytest.raises(AutogradError, match="2 tensors and 1 gradients"):
        backward([loss, loss * 2], [None])


@pytest.mark.spec("004.11")
def test_a_tensor_outside_the_graph_raises_and_names_its_position(a):
    with pytest.raises(AutogradError, match="element 1 of tensors does not require grad"):
        backward([(a * a).sum(), oplib.tensor(1.0)])
    assert a.grad is None


@pytest.mark.spec("001.7")
def test_something_that_is_no_tensor_raises():
    with pytest.raises(TypeError, match="int object is not iterable"):
        backward(3)
    with pytest.raises(TypeError, match=r"not a Tensor or GradientEdge\. Got str"):
        backward(["loss"])


@pytest.mark.spec("001.7")
def test_grad_variables_is_a_deprecated_name(a):
    with pytest.warns(FutureWarning, match="Use `grad_tensors`") as caught:
        backward(a * a, grad_variables=oplib.tensor([1.0, 1.0]))
    assert caught[0].filename == __file__
    assert a.grad.tolist() == [2.0, 4.0]
    with pytest.warns(FutureWarning), pytest.raises(AutogradError, match="both given"):
        backward(a * a, oplib.tensor([1.0, 1.0]), grad_variables=oplib.tensor([1.0, 1.0]))


@pytest.mark.spec("001.7")
def test_inputs_restrict_what_is_accumulated(a):
    b = oplib.tensor([3.0, 4.0], requires_grad=True)
    (a * b).sum().backward(inputs=[a])
    assert a.grad.tolist() == [3.0, 4.0]
    assert b.grad is None


@pytest.mark.spec("001.7", "D.11")
def test_inputs_may_be_one_tensor_a_zero_dimensional_one_or_a_dictionary(a):
    scale = oplib.tensor(2.0, requires_grad=True)
    (a * scale).sum().backward(inputs=scale, retain_graph=True)
    assert scale.grad.item() == 3.0
    (a * scale).sum().backward(inputs={"a": a})
    assert a.grad.tolist() == [2.0, 2.0]
    assert scale.grad.item() == 3.0


@pytest.mark.spec("001.7")
def test_a_repeated_input_accumulates_once(a):
    (a * 3).sum().backward(inputs=[a, a])
    assert a.grad.tolist() == [3.0, 3.0]


@pytest.mark.spec("001.7", "004.12")
def test_an_input_that_is_no_leaf_keeps_its_gradient(a):
    b = a * 2
    (b * b).sum().backward(inputs=[b])
    assert b.retains_grad
    assert b.grad.tolist() == [4.0, 8.0]
    assert a.grad is None


@pytest.mark.spec("001.7")
def test_an_unreachable_input_stays_without_gradient(a):
    other = oplib.tensor([1.0], requires_grad=True)
    (a * a).sum().backward(inputs=[a, other])
    assert other.grad is None


@pytest.mark.spec("001.7")
def test_an_edge_to_a_leaf_accumulates_and_one_to_a_non_leaf_stores_nothing(a):
    b = a * 2
    (b * b).sum().backward(inputs=[get_gradient_edge(a)], retain_graph=True)
    assert a.grad.tolist() == [8.0, 16.0]
    (b * 3).sum().backward(inputs=[get_gradient_edge(b)])
    with pytest.warns(UserWarning, match="is not a leaf Tensor"):
        assert b.grad is None
    assert a.grad.tolist() == [8.0, 16.0]


@pytest.mark.spec("001.7", "001.8", "D.11")
def test_empty_inputs_raise(a):
    with pytest.raises(AutogradError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
        (a * a).sum().backward(inputs=[])
    with pytest.raises(AutogradError, match=r"`inputs` argument to `grad\(\)` cannot be empty"):
        grad((a * a).sum(), [])


@pytest.mark.spec("001.7", "001.8")
def test_an_input_without_requires_grad_raises(a):
    with pytest.raises(AutogradError, match="retain_grad"):
        (a * a).sum().backward(inputs=oplib.tensor([1.0]))
    with pytest.raises(AutogradError, match="does not require grad"):
        grad((a * a).sum(), oplib.tensor([1.0]), allow_unused=True)


@pytest.mark.spec("004.12")
def test_an_input_of_another_type_raises(a):
    with pytest.raises(AutogradError, match=r"Tensors or GradientEdges\. Got int at position 1"):
        grad((a * a).sum(), (a, 3))
    with pytest.raises(GradientTypeError, match="only a plain dict"):
        grad((a * a).sum(), OrderedDict(a=a))


@pytest.mark.spec("001.7")
def test_create_graph_warns_of_the_cycle_once_in_a_process(a, monkeypatch):
    monkeypatch.setattr(reverse, "_has_warned_of_cycle", False)
    text = r"create_graph=True.*reference cycle.*oplib\.autograd\.grad"
    with pytest.warns(UserWarning, match=text) as caught:
        backward((a * a).sum(), create_graph=True)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backward((a * a).sum(), create_graph=True)


@pytest.mark.spec("001.7")
def test_a_second_backward_raises_with_the_cure(a):
    loss = (a * a).sum()
    loss.backward()
    with pytest.raises(SavedTensorError, match=r"second time.*retain_graph=True"):
        loss.backward()


@pytest.mark.spec("001.7")
def test_create_graph_retains_unless_told_otherwise(a):
    loss = (a * a).sum()
    grad(loss, a, create_graph=True)
    grad(loss, a, create_graph=True, retain_graph=False)
    with pytest.raises(SavedTensorError, match="a second time"):
        grad(loss, a)


@pytest.mark.spec("001.8")
def test_grad_stores_nothing(a):
    (found,) = grad((a * a).sum(), a)
    assert found.tolist() == [2.0, 4.0]
    assert not found.requires_grad
    assert a.grad is None


@pytest.mark.spec("001.8")
def test_grad_of_a_tensor_by_itself_is_its_root_gradient(a):
    loss = (a * a).sum()
    assert grad(loss, loss)[0].item() == 1.0
    assert grad(a, a, oplib.tensor([5.0, 6.0]))[0].tolist() == [5.0, 6.0]


@pytest.mark.spec("001.8")
def test_repeated_inputs_and_outputs(a):
    loss = (a * a).sum()
    first, second = grad([loss, loss], [a, a])
    assert first.tolist() == second.tolist() == [4.0, 8.0]
    assert first is not second


@pytest.mark.spec("001.8", "D.11")
def test_grad_by_a_dictionary_gives_a_dictionary(a):
    b = oplib.tensor([3.0, 4.0], requires_grad=True)
    found = grad((a * b).sum(), {"left": a, "right": b})
    assert {name: one.tolist() for name, one in found.items()} == {"left": [3.0, 4.0], "right": [1.0, 2.0]}


@pytest.mark.spec("001.8", "D.11")
def test_gradient_edges_stand_for_tensors_as_inputs_and_outputs(a):
    b = a * a
    edge = get_gradient_edge(b)
    assert grad((b * 2).sum(), get_gradient_edge(a), retain_graph=True)[0].tolist() == [4.0, 8.0]
    assert grad(edge, a, oplib.tensor([1.0, 1.0]))[0].tolist() == [2.0, 4.0]


@pytest.mark.spec("001.5")
def test_an_edge_without_gradient_starts_with_one_only_if_it_is_a_scalar(a):
    loss = (a * 2).sum()
    assert grad(get_gradient_edge(loss), a)[0].tolist() == [2.0, 2.0]
    with pytest.raises(AutogradError, match="implicitly created only for scalar"):
        grad(get_gradient_edge(a * 2), a)


@pytest.mark.spec("004.12", "D.10")
@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda edge: (None, 0), AutogradError, "must be an autograd.graph.Node. Got NoneType"),
        (lambda edge: (edge.node, "x"), GradientTypeError, "must be an integer. Got str"),
        (lambda edge: (edge.node, 5), AutogradError, "has no slot 5. It has 1"),
        (lambda edge: (edge.node, -1), AutogradError, "has no slot -1"),
        (lambda edge: (edge.node, True), AutogradError, "has no slot 1"),
    ],
)
def test_a_malformed_edge_raises(a, change, error, text):
    b = a * a
    with pytest.raises(error, match=text):
        grad(b.sum(), GradientEdge(*change(get_gradient_edge(b))))


@pytest.mark.spec("004.13", "D.11", "D.21")
def test_an_unused_input_raises_with_its_index_and_leaves_the_graph_usable(a):
    other = oplib.tensor([1.0], requires_grad=True)
    loss = (a * a).sum()
    with pytest.raises(AutogradError, match=r"index 1 appears to not have been used.*allow_unused=True"):
        grad(loss, (a, other))
    assert grad(loss, a)[0].tolist() == [2.0, 4.0]


@pytest.mark.spec("001.8", "D.6")
def test_unused_inputs_are_none_or_zeros_if_asked_for(a):
    other = oplib.tensor([1.0, 1.0, 1.0], requires_grad=True)
    loss = (a * a).sum()
    assert grad(loss, (a, other), allow_unused=True, retain_graph=True)[1] is None
    zeros = grad(loss, (a, other), materialize_grads=True, retain_graph=True)[1]
    assert zeros.tolist() == [0.0, 0.0, 0.0]
    assert not zeros.requires_grad
    assert grad(loss, (a, other), materialize_grads=True, create_graph=True)[1].requires_grad


@pytest.mark.spec("001.8")
def test_zeros_cannot_be_made_for_an_edge(a):
    other = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match=r"materialize_grads.*GradientEdge"):
        grad((a * a).sum(), get_gradient_edge(other), materialize_grads=True)


@pytest.mark.spec("001.8")
def test_materialize_grads_contradicts_allow_unused_false(a):
    with pytest.raises(GradientValueError, match=r"^Expected allow_unused to be True or not passed"):
        grad((a * a).sum(), a, allow_unused=False, materialize_grads=True)


@pytest.mark.spec("001.8")
def test_only_inputs_false_warns_at_the_caller(a):
    with pytest.warns(FutureWarning, match="only_inputs") as caught:
        grad((a * a).sum(), a, only_inputs=False)
    assert caught[0].filename == __file__


@pytest.mark.spec("001.8")
def test_no_outputs_leave_inputs_unused(a):
    with pytest.raises(AutogradError, match="index 0 appears to not have been used"):
        grad([], a)
    assert grad([], a, allow_unused=True) == (None,)


@pytest.mark.spec("001.8")
def test_results_require_grad_exactly_under_create_graph(a):
    loss = (a * a * a).sum()
    with oplib.no_grad():
        (first,) = grad(loss, a, create_graph=True)
    assert first.requires_grad
    (second,) = grad(first.sum(), a)
    assert second.tolist() == [6.0, 12.0]
    assert not second.requires_grad


def test_four_orders_of_differentiation_follow(a):
    y = (a * a * a * a).sum()
    values = []
    for _ in range(4):
        (found,) = grad(y, a, create_graph=True)
        values.append(found.tolist())
        y = found.sum()
    assert values == [[4.0, 32.0], [12.0, 48.0], [24.0, 48.0], [24.0, 24.0]]


@pytest.mark.spec("001.8")
def test_gradients_of_other_real_dtypes_are_cast(a):
    y = a * 2
    assert (
        grad(y, a, oplib.tensor([1, 2], dtype=oplib.int32), retain_graph=True)[0].array.dtype == jnp.float32
    )


@pytest.mark.spec("D.21")
def test_a_pass_that_fails_before_it_runs_changes_nothing(a):
    b = oplib.tensor([1.0, 1.0], requires_grad=True)
    a.grad = oplib.tensor([7.0, 7.0])
    with pytest.raises(AutogradError, match="only for scalar outputs"):
        backward([(a * b).sum(), a * b])
    assert a.grad.tolist() == [7.0, 7.0]
    assert b.grad is None


@pytest.mark.spec("D.21")
def test_a_failing_pass_keeps_what_it_has_accumulated(a):
    b = oplib.tensor([1.0, 1.0], requires_grad=True)
    first = b * 1
    first.register_hook(lambda _: 1 / 0)
    a.grad = oplib.tensor([10.0, 10.0])
    with pytest.raises(ZeroDivisionError):
        (first + a * 2).sum().backward()
    assert (a.grad.tolist(), b.grad) == ([12.0, 12.0], None)


@pytest.mark.spec("D.61")
def test_grads_are_restored_by_those_who_keep_them(a):
    """There is no option for it."""
    with pytest.raises(TypeError, match="grad_transaction"):
        backward((a * a).sum(), grad_transaction=True)
    kept = {leaf: leaf.grad for leaf in [a]}
    a.grad = None
    (a * a).sum().backward()
    for leaf, before in kept.items():
        leaf.grad = before
    assert a.grad is None


@pytest.mark.spec("D.13")
def test_a_whole_step_can_be_traced():
    def step(weights):
        w = oplib.Tensor.from_array(weights, requires_grad=True)
        (w * w * w).sum().backward()
        return w.grad.array

    weights = jnp.array([1.0, 2.0])
    expected = jax.grad(lambda w: (w**3).sum())(weights)
    assert jnp.array_equal(jax.jit(step)(weights), expected)
    assert jnp.array_equal(jax.vmap(step)(jnp.stack([weights, weights])), jnp.stack([expected, expected]))


@pytest.mark.spec("D.13")
def test_grad_of_an_outside_tensor_works_under_a_trace(a):
    def sensitivity(x):
        return grad((a * oplib.Tensor.from_array(x)).sum(), a)[0].array

    assert jax.jit(sensitivity)(jnp.array([3.0, 4.0])).tolist() == [3.0, 4.0]


@pytest.mark.spec("D.13")
@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_a_traced_gradient_is_not_stored_in_a_leaf_from_outside(transform):
    a = oplib.tensor(1.0, requires_grad=True)

    def leak(x):
        (a * oplib.Tensor.from_array(x)).sum().backward()
        return x

    with pytest.raises(TracingError, match=r"the leaf f32\[\], which was made outside.*autograd\.grad"):
        transform(leak)(jnp.ones(2))
    assert a.grad is None


@pytest.mark.spec("D.13")
def test_a_traced_gradient_is_not_retained_by_a_tensor_from_outside(a):
    b = a * 2
    b.retain_grad()

    def leak(x):
        grad((b * oplib.Tensor.from_array(x)).sum(), a)
        return x

    with pytest.raises(TracingError, match=r"the tensor f32\[2\], which was made outside"):
        jax.jit(leak)(jnp.ones(2))
    assert b.grad is None


def test_hooks_of_a_backward_in_a_dual_level_get_gradients_with_tangents(a):
    tangents = []
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(a, oplib.tensor([1.0, 3.0]))
        dual.register_hook(lambda gradient: tangents.append(forward_ad.unpack_dual(gradient).tangent))
        (dual**3).sum().backward()
    (expected,) = tangents
    _, by_jax = jax.jvp(jax.grad(lambda x: (x**3).sum()), (a.detach().array,), (jnp.array([1.0, 3.0]),))
    assert expected.tolist() == by_jax.tolist()
