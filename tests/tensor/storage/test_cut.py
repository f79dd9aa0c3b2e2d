"""What detach and no_grad cut under the transformations of JAX. ``tests/worlds`` has the matrix."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.errors import AutogradError, TracingError
from oplib.modes import modes

pytestmark = pytest.mark.spec("D.48")
A = jnp.array([1.0, 2.0])


def slope(f, a=A):
    return jax.grad(lambda a: f(Tensor.from_array(a)).sum().array)(a)


def test_a_block_around_the_transformation_does_not_count():
    with oplib.no_grad():
        assert slope(lambda t: t * 3).tolist() == [3, 3]


@pytest.mark.parametrize("inner", [jax.jit, jax.checkpoint, jax.vmap])
def test_a_block_around_an_inner_trace_does_not_count_inside(inner):
    def f(t):
        with oplib.no_grad():
            return Tensor.from_array(inner(lambda a: (Tensor.from_array(a) * 3).array)(t.array))

    assert slope(f).tolist() == [3, 3]


def test_a_call_on_arrays_in_a_block_is_differentiated():
    @oplib.library.custom_op(autograd="derive")
    def triple(x: oplib.Tensor) -> oplib.Tensor:
        return x * 3

    def f(a):
        with oplib.no_grad():
            return (oplib.mul(a, 2.0) + triple(a)).sum()

    assert jax.grad(f)(A).tolist() == [5, 5]


def test_a_kernel_that_makes_its_result_of_an_array_is_a_constant_in_a_block():
    @oplib.library.custom_op
    def sine(x: oplib.Tensor) -> oplib.Tensor:
        return Tensor.from_array(jnp.sin(x.array))

    def f(t):
        with oplib.no_grad():
            y = sine(t)
        return y + t

    assert slope(f).tolist() == [1, 1]


def test_a_kernel_that_writes_in_a_block_leaves_the_derivative():
    @oplib.library.custom_op(mutates_args=("x",))
    def quintuple(x: oplib.Tensor) -> None:
        x.mul_(5)

    def f(t):
        y = t * t
        with oplib.no_grad():
            quintuple(y)
        return y

    assert slope(f).tolist() == [2, 4]


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_of_a_block_is_a_constant_unless_it_is_recorded(create_graph):
    def f(t):
        x = t * 1
        x.requires_grad_()
        loss = (x * x * x).sum()
        with oplib.no_grad():
            (gradient,) = oplib.autograd.grad(loss, x, create_graph=create_graph)
        return gradient

    assert slope(f).tolist() == ([6, 12] if create_graph else [0, 0])


def test_a_write_keeps_the_derivative_of_an_infinite_value_and_the_sign_of_zero():
    def f(t):
        y = t * np.inf
        with oplib.no_grad():
            y.copy_(oplib.tensor([-0.0, 3.0]))
        return y

    value, push = jax.linearize(lambda a: f(Tensor.from_array(a)).array, A)
    assert str(value.tolist()) == "[-0.0, 3.0]"
    assert push(A).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64", "int32"])
def test_values_of_each_dtype_are_those_outside_of_a_trace(dtype):
    def f(t):
        y = (t * 3).to(dtype)
        with oplib.no_grad():
            y.mul_(2)
            y[:1] = 1
        return y + y.detach() * y.data

    seen = []
    jax.grad(lambda a: (seen.append(f(Tensor.from_array(a))), a.sum())[1])(A)
    expected = f(Tensor.from_array(A))
    assert seen[0].dtype == expected.dtype
    assert jax.jit(lambda a: f(Tensor.from_array(a)).array)(A).tolist() == expected.tolist()


def test_versions_and_views_of_a_detached_tensor_are_shared():
    def f(a):
        y = Tensor.from_array(a) * 1
        detached = y.detach()
        detached[:1].mul_(4)
        assert y._version == detached._version == 1
        return (y * detached).sum().array

    assert jax.value_and_grad(f)(A)[0] == 20
    assert jax.grad(f)(A).tolist() == [4, 2]


def write_item_of_detached(lib, d, w):
    """The three items of ``e`` are one item of ``d``. Torch takes such a write only through ``data``."""
    e = d[:1].expand(3).data
    e[0].mul_(3)
    return (d * w).sum() + (e * d[:3]).sum()


@pytest.mark.spec("D.44")
def test_a_view_of_a_detached_expanded_tensor_writes_the_base_in_a_trace_too():
    torch = pytest.importorskip("torch", reason="torch says what is due")
    numbers = [[1.0, 2.0, 3.0, 4.0], [0.5, 1.0, 2.0, 3.0]]
    leaves = [torch.tensor(row, requires_grad=True) for row in numbers]
    due = write_item_of_detached(torch, leaves[0] * 1, leaves[1])
    due.backward()

    def write(d, w):
        return write_item_of_detached(oplib, Tensor.from_array(d * 1), Tensor.from_array(w)).array

    arrays = [jnp.array(row) for row in numbers]
    value, grads = jax.jit(jax.value_and_grad(write, (0, 1)))(*arrays)
    assert value == due.item()
    for grad, leaf in zip(grads, leaves, strict=True):
        np.testing.assert_allclose(grad, leaf.grad.numpy())


def test_the_derivative_of_what_is_written_into_a_detached_expanded_tensor_stays_in_it():
    def write(d, w):
        d, w = Tensor.from_array(d * 1), Tensor.from_array(w)
        e = d[:1].expand(3).detach()
        e[0].add_(w[0])
        e[1].mul_(2)
        return ((e * 2).sum() + d.sum()).array

    value, grads = jax.value_and_grad(write, (0, 1))(jnp.array([1.0, 2.0]), jnp.array([3.0]))
    assert value == 3 * 2 * 8 + 8 + 2
    assert [grad.tolist() for grad in grads] == [[1.0, 1.0], [3 * 2 * 2]]


@pytest.mark.spec("D.44")
def test_items_that_share_memory_are_refused_in_a_trace_too():
    def write(take):
        def run(array):
            target = take(Tensor.from_array(array * 1))
            with pytest.raises(AutogradError, match="refers to a single memory location"):
                target.add_(1.0)
            return target.array

        return jax.jit(run)(jnp.ones(3))

    def show(d):
        other = oplib.ones(3) * d
        other.data = d[:1].expand(3)
        return other

    write(lambda d: d[:1].expand(3).detach())
    write(lambda d: d[:1].expand(3).data)
    write(lambda d: d[:1].expand(3).data.detach())
    write(lambda d: d.as_strided((2, 2), (1, 1)).data)
    write(show)
    write(lambda d: show(d)[:2])


@pytest.mark.parametrize(("shape", "dtype"), [((2, 1), "float32"), ((2,), "float16")])
def test_data_of_another_shape_or_dtype_is_shown_as_it_is_in_a_trace(shape, dtype):
    def show(array):
        x = Tensor.from_array(array)
        x.data = Tensor.from_array(array.reshape(shape).astype(dtype)) * 2
        return x.array

    found = jax.jit(show)(A)
    assert (found.shape, found.dtype) == (shape, dtype)
    assert found.ravel().tolist() == [2.0, 4.0]


def test_what_set_writes_is_counted_at_the_tensor_that_was_detached():
    def count(array):
        x = Tensor.from_array(array)
        x.detach().set_(oplib.ones(3) * x)
        return x._version

    assert count(jnp.ones(3)) == 1
    versions = []
    jax.jit(lambda array: versions.append(count(array)))(jnp.ones(3))
    assert versions == [1]


def test_a_copy_of_a_detached_tensor_is_a_constant():
    assert slope(lambda t: copy.deepcopy(t.detach()) * t).tolist() == [1, 2]


def test_a_turn_in_place_in_a_block_keeps_the_derivative():
    def f(t):
        y = t.reshape(1, 2) * 2
        with oplib.no_grad():
            y.t_()
        return y

    assert slope(f).tolist() == [2, 2]


def test_internal_grad_modes_change_nothing():
    def f(t):
        y = oplib.zeros(2)
        oplib.mul(t, 3, out=y)  # runs with recording off
        return y + oplib.autograd.functional.vjp(lambda x: x * x, t, oplib.ones(2))[1]

    assert slope(f).tolist() == [5, 5]


@pytest.mark.parametrize("make", [lambda: oplib.ones(2).clone(), lambda: oplib.ones(3)[1:] * 2])
def test_the_result_of_an_op_inside_takes_a_traced_value(make):
    assert slope(lambda t: make().mul_(t)).tolist() == make().tolist()
    batch = jnp.stack([A, A])
    assert jax.vmap(lambda a: make().mul_(Tensor.from_array(a)).array)(batch).shape == (2, 2)


def test_the_result_of_an_op_outside_takes_no_traced_value():
    made = oplib.ones(2).clone()
    with pytest.raises(TracingError, match="made outside this trace"):
        slope(lambda t: made.mul_(t))
    assert made.tolist() == [1, 1]


def test_a_gradient_that_a_backward_writes_is_mapped():
    class Relu(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            result = grad.clone()
            result[x < 0] = 0
            return result

    gradients = jax.vmap(jax.grad(lambda a: Relu.apply(Tensor.from_array(a)).sum().array))
    assert gradients(jnp.array([[1.0, -1.0], [-2.0, 3.0]])).tolist() == [[1, 0], [0, 1]]


def test_a_thread_forgets_a_trace_at_its_next_call():
    slope(lambda t: t.detach() * t)
    before = modes.state.watchers
    oplib.ones(2)
    assert not modes.state.in_trace
    assert modes.state.watchers in (before, before - 1)
    assert modes.state.watchers == 0


def test_a_decorated_generator_is_constant_in_its_steps_only():
    @oplib.no_grad()
    def steps(t):
        yield t * 3

    assert slope(lambda t: next(steps(t)) + t * 2).tolist() == [2, 2]


@pytest.mark.parametrize("kind", [np.ndarray, Tensor], ids=["host", "Tensors"])
def test_a_view_is_cut_after_a_kernel_that_runs_outside_of_the_trace(kind):
    def square(x):
        return x * x

    square.__annotations__ = {"x": kind, "return": kind}
    op = oplib.library.custom_op(square)
    op.register_fake(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    op.register_autograd(lambda ctx, grad: grad * 2)
    assert slope(lambda t: op(t)[:1].detach() * t).tolist() == [1, 1]
    assert slope(lambda t: op(t).reshape(2, 1).data.sum() * t).tolist() == [5, 5]
