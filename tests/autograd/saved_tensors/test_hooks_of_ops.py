"""The tensors that user Functions and registered ops hand to hooks for saved tensors."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.graph import saved_tensors_hooks
from oplib.errors import AutogradError, GradientTypeError


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x, _), _ = ctx.saved_tensors, ctx.saved_tensors
        return grad * 3 * x * x


@pytest.mark.spec("000.14")
def test_a_function_packs_its_very_input_and_unpacks_at_each_read(a, hooks):
    b = a * 1
    with hooks():
        y = Cube.apply(b)
    assert [one is b for one in hooks.packed] == [True]
    y.backward()
    assert hooks.unpacked == 2
    assert a.grad.tolist() == [12.0]


def test_a_function_that_is_unpacked_twice_differentiates_twice(a, hooks):
    with hooks():
        y = Cube.apply(a)
    (first,) = oplib.autograd.grad(y, a, create_graph=True)
    (second,) = oplib.autograd.grad(first, a)
    assert (first.tolist(), second.tolist()) == ([12.0], [12.0])


def test_a_function_without_hooks_gives_back_the_very_tensors(a):
    seen = []

    class Save(Cube):
        @staticmethod
        def backward(ctx, grad):
            seen.extend(ctx.saved_tensors)
            return grad

    b = a * 1
    Save.apply(b).backward()
    assert seen[0] is b


@pytest.mark.spec("000.14")
def test_registered_ops_pack_what_their_setup_saves(forget_ops, a, hooks):
    @oplib.custom_op("test_saved::sine")
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], jnp.cos(inputs[0]))

    sine.register_autograd(lambda ctx, grad: grad * ctx.saved_tensors[1], setup_context=setup)
    with hooks():
        y = sine(a)
    assert len(hooks.packed) == 2
    (first,) = oplib.autograd.grad(y, a, create_graph=True)
    (second,) = oplib.autograd.grad(first, a)
    assert first.item() == pytest.approx(float(jnp.cos(2.0)))
    assert second.item() == pytest.approx(-float(jnp.sin(2.0)))


@pytest.mark.spec("000.14")
def test_an_array_among_the_arguments_is_packed_and_a_number_is_not(forget_ops, a, hooks):
    @oplib.custom_op("test_saved::scale", operand=("by",))
    def scale(x: jax.Array, factor: jax.Array, by: float) -> jax.Array:
        return x * factor * by

    scale.register_autograd("derive")
    with hooks():
        y = scale(a, jnp.array([3.0]), 2.0)
    y.backward()
    assert len(hooks.packed) == 1
    assert a.grad.tolist() == [6.0]


@pytest.mark.spec("000.14")
def test_eager_ops_pack_what_their_setup_saves(forget_ops, a, hooks):
    @oplib.custom_op("test_saved::eager")
    def eager(x: oplib.Tensor) -> oplib.Tensor:
        return x * x

    eager.register_autograd(
        lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    with hooks():
        y = eager(a)
    y.backward()
    assert (len(hooks.packed), hooks.unpacked) == (1, 1)
    assert a.grad.tolist() == [4.0]


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("call", [lambda a: a * a, lambda a: (a * 1).exp(), Cube.apply])
def test_a_pack_hook_that_writes_into_its_argument_is_refused(a, call):
    with (
        saved_tensors_hooks(lambda t: t.detach().mul_(2), lambda t: t),
        pytest.raises(AutogradError, match="pack hook is modifying its input in place"),
    ):
        call(a)


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("call", [lambda a: a * a, Cube.apply])
def test_an_unpack_hook_returns_a_tensor(a, call):
    with saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = call(a)
    with pytest.raises(
        GradientTypeError, match=r"unpack_hook is expected to be a Tensor. Got result of type int"
    ):
        y.backward()


def test_an_intermediate_can_be_read_as_a_saved_tensor(forget_ops):
    @oplib.custom_op("test_hooks_of_ops::squared_exp")
    def squared_exp(x: jax.Array) -> jax.Array:
        return jnp.exp(x) ** 2

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs, jnp.exp(inputs[0]), output)

    squared_exp.register_autograd(lambda ctx, g: g * 2 * ctx.saved_tensors[1] ** 2, setup_context=setup)
    x = oplib.tensor([0.5, 1.0], requires_grad=True)
    y = squared_exp(x)
    saved = y.grad_fn.saved_tensors
    (exp,) = [tensor for tensor in saved if not tensor.requires_grad]
    assert exp.tolist() == x.exp().tolist()
    assert saved[0] is x
    assert len(saved) == 3


def _square(x):
    return x * x


PROGRAMS = {
    "multiply": _square,
    "sine": oplib.sin,
    "exponential": oplib.exp,
    "matmul": lambda x: x[None] @ x[:, None],
    "cond": lambda x: oplib.cond(oplib.tensor(True), lambda x: (x * x).sin(), oplib.cos, x),
    "scan": lambda x: oplib.scan(lambda c, _: ((c * c).sin(), None), x, None, length=2)[0],
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wrap", [lambda function: function, oplib.jit], ids=["op by op", "jit"])
@pytest.mark.parametrize("again", [False, True])
def test_a_hook_may_return_another_precision_but_no_other_kind_of_dtype(name, wrap, again):
    def slope(pack, unpack):
        x = oplib.tensor([0.5, 1.5], requires_grad=True)  # halves have its squares too
        with saved_tensors_hooks(pack, unpack):
            y = wrap(PROGRAMS[name])(x).sum()
        (first,) = oplib.autograd.grad(y, x, create_graph=again)
        return first.dtype, (oplib.autograd.grad(first.sum(), x)[0] if again else first).tolist()

    def halve(t):
        return t.to(oplib.float16) if t.is_floating_point() else t

    dtype, found = slope(lambda t: t, halve)
    assert dtype == oplib.float32
    assert found == pytest.approx(slope(lambda t: t, lambda t: t)[1], rel=5e-3)
    with pytest.raises(
        GradientTypeError, match=r"Backward0? saved float32\[.*\], and the unpack_hook returned int32"
    ):
        slope(lambda t: t, lambda t: t.to(oplib.int32))


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", ["multiply", "exponential", "matmul", "sine"])
@pytest.mark.parametrize("wrap", [lambda function: function, oplib.jit], ids=["op by op", "jit"])
@pytest.mark.parametrize("again", [False, True])
def test_a_hook_may_return_a_shape_that_broadcasts_and_no_other(name, wrap, again):
    def slope(unpack):
        x = oplib.tensor([1.5, 1.5], requires_grad=True)
        with saved_tensors_hooks(lambda t: t, unpack):
            y = wrap(PROGRAMS[name])(x).sum()
        (first,) = oplib.autograd.grad(y, x, create_graph=again)
        return (oplib.autograd.grad(first.sum(), x)[0] if again else first).tolist()

    whole = slope(lambda t: t)
    assert slope(lambda t: t.reshape(-1)[:1] if t.numel() == 2 else t) == pytest.approx(whole)
    assert slope(lambda t: t.reshape(-1)[0]) == pytest.approx(whole)
    for shape in ((3,), (5, 2)):
        with pytest.raises(
            GradientTypeError, match=rf"saved float32\[.*\], and the unpack_hook returned float32\[{shape[0]}"
        ):
            slope(lambda t, shape=shape: oplib.ones(shape))
