"""Recorded writes through a view, which one program makes, and whose gradient one program computes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd.recording.formula_node import FormulaNode
from oplib.autograd.recording.view_node import ViewNode

OTHER = [1.5, -0.5, 2.0, 0.25]
WRITES = {
    "mul_ by a number": (lambda v, y: v.mul_(2.0), lambda v, y: v * 2),
    "mul_ by a tensor": (lambda v, y: v.mul_(y), lambda v, y: v * y),
    "mul_ by a constant": (lambda v, y: v.mul_(y.detach()), lambda v, y: v * jax.lax.stop_gradient(y)),
    "add_": (lambda v, y: v.add_(y, alpha=3), lambda v, y: v + 3 * y),
    "add_ of a number": (lambda v, y: v.add_(3), lambda v, y: v + 3),
    "pow_": (lambda v, y: v.pow_(2), lambda v, y: v**2),
    "exp_": (lambda v, y: v.exp_(), lambda v, y: jnp.exp(v)),
    "clamp_": (lambda v, y: v.clamp_(0.1, 0.8), lambda v, y: jnp.clip(v, 0.1, 0.8)),
    "lerp_": (lambda v, y: v.lerp_(y, 0.25), lambda v, y: v + 0.25 * (y - v)),
    "floor_": (lambda v, y: v.floor_(), lambda v, y: jax.lax.stop_gradient(jnp.floor(v))),
}
VIEWS = {
    "row": (lambda c: c[1], lambda c: c[1], lambda c, part: c.at[1].set(part)),
    "column": (lambda c: c[:, 2], lambda c: c[:, 2], lambda c, part: c.at[:, 2].set(part)),
    "diagonal": (
        lambda c: c.diagonal(),
        jnp.diagonal,
        lambda c, part: c.at[jnp.arange(4), jnp.arange(4)].set(part),
    ),
    "view of a view": (
        lambda c: c[1:][1:].t()[:, 0],
        lambda c: c[2],
        lambda c, part: c.at[2].set(part),
    ),
}


def make():
    return oplib.arange(16.0).div(10).reshape(4, 4).requires_grad_(), oplib.tensor(OTHER, requires_grad=True)


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_values_and_gradients_are_those_of_a_copy_with_another_part(view, write):
    def compute(x, y):
        c = x * 3
        return (view[2](c, write[1](view[1](c), y)) ** 2).sum()

    for _ in range(3):  # the first calls of an op are not compiled yet
        x, y = make()
        c = x * 3
        version = c._version
        part = view[0](c)
        assert write[0](part, y) is part
        assert c._version == part._version == version + 1
        loss = (c * c).sum()
        loss.backward()
        value, expected = jax.value_and_grad(compute, (0, 1))(x.detach().array, y.detach().array)
        np.testing.assert_allclose(loss.item(), value, rtol=1e-5)
        np.testing.assert_allclose(x.grad.numpy(), expected[0], rtol=1e-5, atol=1e-6)
        found = np.zeros(4) if y.grad is None else y.grad.numpy()
        np.testing.assert_allclose(found, expected[1], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(part.detach().numpy(), view[0](c.detach()).numpy())


def write_and_sum(x, *, factor=2.0):
    c = x.clone()
    c[1].mul_(factor)
    return c


def test_a_write_and_its_view_run_with_the_step_of_the_copy(monkeypatch):
    x, _ = make()
    for _ in range(3):
        results = [write_and_sum(x) for _ in range(2)]
        results[0].sum().backward()
    monkeypatch.setattr(ViewNode, "apply", None)  # neither is called
    x.grad = None
    results[1].sum().backward()
    assert x.grad.tolist() == [[1.0] * 4, [2.0] * 4, [1.0] * 4, [1.0] * 4]


def test_hooks_of_the_written_value_see_its_gradient():
    x, _ = make()
    seen = []
    for _ in range(3):
        c = x.clone()
        part = c[1]
        part.register_hook(lambda grad: seen.append(grad.tolist()))
        part.mul_(2.0)
        node = c.grad_fn.next_functions[1][0]
        assert isinstance(node, FormulaNode)
        node.register_hook(lambda results, grads: seen.append((results[0].tolist(), grads[0].tolist())))
        c.sum().backward()
    assert seen == [([2.0] * 4, [1.0] * 4), [2.0] * 4] * 3


def test_a_part_that_is_used_besides_gets_both_gradients():
    x, _ = make()
    for _ in range(3):
        x.grad = None
        c = x.clone()
        part = c[1]
        before = part * 5
        part.mul_(2.0)
        (c.sum() + before.sum()).backward()
        assert x.grad.tolist() == [[1.0] * 4, [7.0] * 4, [1.0] * 4, [1.0] * 4]


def test_a_second_pass_raises_where_the_write_has_saved_a_tensor():
    x, y = make()
    for _ in range(3):
        c = write_and_sum(x, factor=y.detach())
        c.sum().backward(retain_graph=True)
        c.sum().backward()
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            c.sum().backward()


def test_a_value_that_the_write_has_saved_and_another_write_changed_raises():
    x, y = make()
    factor = y.detach()
    for _ in range(3):
        c = write_and_sum(x, factor=factor)
        factor.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            c.sum().backward()


def test_the_gradient_can_be_differentiated():
    for _ in range(3):
        x, _ = make()
        c = x * 1
        c[1].pow_(3)
        (first,) = oplib.autograd.grad(c.sum(), x, create_graph=True)
        (second,) = oplib.autograd.grad(first.sum(), x)
        expected = np.zeros((4, 4), np.float32)
        expected[1] = 6 * x.detach().numpy()[1]
        np.testing.assert_allclose(second.numpy(), expected, rtol=1e-5)


def test_a_view_of_a_leaf_is_refused_and_not_written():
    x, _ = make()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            x[1].mul_(2.0)
    assert x.detach().tolist() == make()[0].detach().tolist()


def test_a_tensor_that_needs_a_gradient_is_written_into_a_constant():
    _, y = make()
    for _ in range(3):
        y.grad = None
        c = oplib.ones(4, 4)
        c[1].mul_(y)
        c.sum().backward()
        assert y.grad.tolist() == [1.0] * 4
