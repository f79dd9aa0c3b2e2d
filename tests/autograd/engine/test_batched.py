"""``grad(..., is_grads_batched=True)``."""

import pytest

import oplib
from oplib.autograd import grad
from oplib.errors import AutogradError, GradientValueError


@pytest.fixture
def a():
    return oplib.tensor([1.0, 2.0], requires_grad=True)


@pytest.mark.spec("001.9")
def test_the_rows_of_an_identity_give_the_jacobian(a):
    (jacobian,) = grad(a * a, a, oplib.eye(2), is_grads_batched=True)
    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 4.0]]


@pytest.mark.spec("001.9")
def test_a_scalar_output_takes_a_batch_of_scalars(a):
    (found,) = grad((a * a).sum(), a, oplib.tensor([1.0, 2.0, 3.0]), is_grads_batched=True)
    assert found.tolist() == [[2.0, 4.0], [4.0, 8.0], [6.0, 12.0]]


@pytest.mark.spec("001.9")
def test_nodes_run_once_and_see_single_gradients(a):
    y = a * a
    shapes = []
    y.grad_fn.register_prehook(lambda grads: shapes.append(grads[0].array.shape))
    grad(y, a, oplib.eye(2), is_grads_batched=True)
    assert shapes == [(2,)]


@pytest.mark.spec("001.9")
def test_an_unused_input_is_none_or_zeros_without_batch(a):
    other = oplib.tensor([1.0], requires_grad=True)
    y = a * a
    found = grad(y, (a, other), oplib.eye(2), is_grads_batched=True, allow_unused=True, retain_graph=True)
    assert found[1] is None
    found = grad(y, (a, other), oplib.eye(2), is_grads_batched=True, materialize_grads=True)
    assert found[1].tolist() == [0.0]


@pytest.mark.spec("001.9")
def test_batched_results_can_be_differentiated(a):
    (jacobian,) = grad(a * a * a, a, oplib.eye(2), is_grads_batched=True, create_graph=True)
    assert jacobian.tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert grad(jacobian.sum(), a)[0].tolist() == [6.0, 12.0]


@pytest.mark.spec("001.9")
def test_batches_of_different_sizes_raise(a):
    with pytest.raises(GradientValueError, match=r"batches of one size. Got \[f32\[3,2\], f32\[2,2\]\]"):
        grad([a * 2, a * 3], a, [oplib.ones(3, 2), oplib.ones(2, 2)], is_grads_batched=True)


@pytest.mark.spec("001.9")
def test_a_missing_gradient_raises(a):
    with pytest.raises(GradientValueError, match=r"every output needs a gradient\. Got None"):
        grad([(a * 2).sum(), a * 3], a, [None, oplib.ones(3, 2)], is_grads_batched=True)
    with pytest.raises(GradientValueError, match=r"every output needs a gradient\. Got None"):
        grad([a * 3, oplib.tensor(1.0)], a, [oplib.ones(3, 2), None], is_grads_batched=True)


@pytest.mark.spec("004.10", "D.13")
def test_backward_inside_a_batched_run_raises(a):
    y = a * a
    y.register_hook(lambda _: (a * a).sum().backward())
    with pytest.raises(AutogradError, match="cannot be called inside vmap"):
        grad(y, a, oplib.eye(2), is_grads_batched=True)


@pytest.mark.spec("001.7", "D.13")
def test_backward_inside_a_map_raises_and_grad_does_not():
    def store(row):
        leaf = row.clone().requires_grad_()
        (leaf * leaf).sum().backward()
        return leaf.grad

    def give_back(row):
        leaf = row.clone().requires_grad_()
        return oplib.autograd.grad((leaf * leaf).sum(), leaf)[0]

    rows = oplib.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(AutogradError, match=r"backward: it cannot be called inside vmap.*use grad"):
        oplib.vmap(store)(rows)
    assert oplib.vmap(give_back)(rows).tolist() == [[2.0, 4.0], [6.0, 8.0]]
