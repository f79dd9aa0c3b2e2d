"""``grad(..., is_grads_batched=True)``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import grad
from oplib.errors import AutogradError, GradientValueError, SavedTensorError


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


def write_through_a_view(x):
    copy = x.clone()
    copy[1].mul_(x[0])
    return copy


class Halved(oplib.autograd.Function):
    """Its backward is Python code, which sees single gradients."""

    @staticmethod
    def forward(ctx, x):
        return x * 0.5

    @staticmethod
    def backward(ctx, grad):
        assert grad.shape == (2, 3)
        return grad * 0.5


def differentiate(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * 2 * x


def save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


@oplib.custom_op("batched::plain_square", compile=False)
def plain_square(x: jax.Array) -> jax.Array:
    return x * x


@oplib.custom_op("batched::host_square")
def host_square(x: np.ndarray) -> np.ndarray:
    return np.square(x)


host_square.register_fake(lambda x: x)
for op in (plain_square, host_square):
    op.register_autograd(differentiate, setup_context=save)


GRAPHS = {
    "chain": lambda x: (x * x).tanh() * x,
    "view": lambda x: x.t()[1:].t() * x[:, 1:],
    "moving view": lambda x: x[1] * x[0],
    "several views": lambda x: x.unbind()[1] * 2.0,
    "cut": lambda x: oplib.cat(x.chunk(3, 1)[1:], 1) ** 2,
    "write through a view": write_through_a_view,
    "place and value": lambda x: x.max(1).values,
    "matmul": lambda x: x @ x.t(),
    "overwritten": lambda x: x.clone().fill_(1.0) * x,
    "complex": lambda x: oplib.complex(x, x * x),
    "Function": lambda x: Halved.apply(x) * x,
    "cast": lambda x: x.to(oplib.float16) * 2.0,
    "plain Python": lambda x: plain_square(x * 2.0) * x,
    "host": lambda x: host_square(x * 2.0) * x,
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_each_row_is_the_gradient_of_one_run(name, compiled, monkeypatch):
    monkeypatch.setattr(oplib.config, "compiled_autograd", compiled)
    x = oplib.tensor(np.linspace(0.5, 2.0, 6, dtype=np.float32).reshape(2, 3), requires_grad=True)
    y = GRAPHS[name](x)
    rows = oplib.stack([oplib.ones_like(y), y.detach(), y.detach() * 0.0])
    single = [grad(y, x, row, retain_graph=True)[0] for row in rows]
    for _ in range(2):
        (found,) = grad(y, x, rows, is_grads_batched=True, retain_graph=True)
        np.testing.assert_allclose(found, oplib.stack(single), rtol=1e-6)


def turn_in_place(a):
    return (a * 2).neg_()


@pytest.mark.parametrize(
    "compute",
    [
        lambda a: (a * a).tanh(),
        lambda a: (a[1:] * a[:1]).expand(2),
        lambda a: oplib.stack(a.unbind()[::-1]),
        write_through_a_view,
        turn_in_place,
    ],
)
def test_a_pass_of_formulas_is_traced_once(compute, a, monkeypatch):
    def run():
        return grad(compute(a), a, oplib.eye(2), is_grads_batched=True)[0].tolist()

    first = run()
    monkeypatch.setattr(jax, "vmap", None)
    assert run() == first


def test_hooks_and_python_code_may_hand_gradients_to_another_node(a):
    held = {}
    y = a * a
    z = y.tanh()
    z.register_hook(lambda grad: held.update(z=grad))
    y.register_hook(lambda grad: grad + held["z"])
    slope = 1 - jnp.tanh(a.array**2) ** 2
    (found,) = grad(z, a, oplib.eye(2), is_grads_batched=True)
    np.testing.assert_allclose(found, np.diag((slope + 1) * 2 * a.array), rtol=1e-6)


def test_a_pass_frees_the_graph_unless_it_is_kept(a):
    y = a * a
    grad(y, a, oplib.eye(2), is_grads_batched=True)
    with pytest.raises(SavedTensorError, match="second time"):
        grad(y, a, oplib.eye(2), is_grads_batched=True)


def test_a_saved_value_that_was_written_raises(a):
    x = a.clone()
    y = x * x
    x.add_(1.0)
    with pytest.raises(SavedTensorError, match="MulBackward0"):
        grad(y, a, oplib.eye(2), is_grads_batched=True)
