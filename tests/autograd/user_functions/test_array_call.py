"""Functions of users inside JAX's transformations: on a tape there, or as ops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Function, grad
from oplib.errors import GradientTypeError, MissingRuleError, TracingError

pytestmark = pytest.mark.spec("D.13")

A = jnp.array([1.0, 3.0])


class Tripled(Function):
    """Squares, with three times the gradient, so that a result tells which rule ran."""

    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        ctx.factor = 3.0
        return y

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        return g * 2 * x * ctx.factor


class Written(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(5.0)

    @staticmethod
    def backward(ctx, g):
        return g * 5.0


def by_grad(array):
    leaf = oplib.Tensor.from_array(array, requires_grad=True)
    return grad(Tripled.apply(leaf).sum(), leaf)[0].array


def by_backward(array):
    leaf = oplib.Tensor.from_array(array, requires_grad=True)
    Tripled.apply(leaf).sum().backward()
    return leaf.grad.array


def twice(array):
    leaf = oplib.Tensor.from_array(array, requires_grad=True)
    (first,) = grad(Tripled.apply(leaf).sum(), leaf, create_graph=True)
    return grad(first.sum(), leaf)[0].array


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint, lambda f: jax.vmap(jax.jit(f))])
@pytest.mark.parametrize(("step", "expected"), [(by_grad, 6 * A), (by_backward, 6 * A), (twice, 0 * A + 6)])
def test_the_backward_of_the_user_runs_under_a_transformation(step, expected, wrap):
    assert wrap(step)(A).tolist() == expected.tolist()


def test_a_pass_that_jax_differentiates_is_differentiated_through_the_backward():
    assert jax.grad(lambda a: by_grad(a).sum())(A).tolist() == [6.0, 6.0]
    assert jax.jvp(by_backward, (A,), (jnp.ones(2),))[1].tolist() == [6.0, 6.0]


def test_a_pass_is_a_step_of_a_scan():
    def step(carry, a):
        return carry + by_grad(a).sum(), by_grad(a)

    total, rows = jax.lax.scan(step, jnp.array(0.0), jnp.stack([A, 2 * A]))
    assert rows.tolist() == [[6.0, 18.0], [12.0, 36.0]]
    assert total == 72.0


# Where JAX differentiates by itself ----------------------------------------------------------


def plain(array):
    return Tripled.apply(oplib.Tensor.from_array(array)).array


@pytest.mark.parametrize(
    "slope",
    [
        lambda f: jax.grad(lambda a: f(a).sum()),
        lambda f: jax.jit(jax.grad(lambda a: f(a).sum())),
        lambda f: jax.grad(jax.jit(lambda a: f(a).sum())),
        lambda f: jax.vmap(jax.grad(f)),
        lambda f: jax.grad(lambda a: jax.vmap(f)(a).sum()),
        lambda f: jax.grad(jax.checkpoint(lambda a: f(a).sum())),
        lambda f: lambda a: jnp.diag(jax.jacrev(f)(a)),
        lambda f: jax.grad(lambda a: jax.lax.map(f, a).sum()),
    ],
)
def test_jax_finds_the_backward_of_the_user(slope):
    assert slope(plain)(A).tolist() == [6.0, 18.0]


def test_jax_differentiates_the_backward_again():
    assert jnp.diag(jax.jacrev(jax.grad(lambda a: plain(a).sum()))(A)).tolist() == [6.0, 6.0]


def test_forward_mode_is_derived_from_the_backward():
    assert jax.jvp(plain, (A,), (A,))[1].tolist() == [6.0, 54.0]


@pytest.mark.spec("D.40")
@pytest.mark.parametrize("differentiate", [jax.grad, lambda f: lambda a: jax.jvp(f, (a,), (a,))])
def test_jax_never_differentiates_the_forward(differentiate):
    function = type("Square", (Function,), {"forward": staticmethod(lambda ctx, x: x * x)})
    with pytest.raises(MissingRuleError, match="SquareBackward: its Function has no backward"):
        differentiate(lambda a: function.apply(oplib.Tensor.from_array(a)).array.sum())(A)
    assert jax.jit(function.apply)(A).tolist() == [1.0, 9.0]


@pytest.mark.parametrize("other", [2.0, np.full(2, 2.0, np.float32)], ids=["number", "numpy"])
@pytest.mark.parametrize("disabled", [False, True])
def test_what_is_not_an_array_is_refused_by_save_for_backward_and_kept_as_an_attribute(other, disabled):
    class Product(Function):
        @staticmethod
        def forward(ctx, x, y, keep):
            keep(ctx, x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.y, None, None

    def slope(keep):
        return jax.grad(lambda a: Product.apply(a, other, keep).sum())(A)

    with jax.disable_jit(disabled):
        assert slope(lambda ctx, x, y: setattr(ctx, "y", y)).tolist() == [2.0, 2.0]
        with pytest.raises(GradientTypeError, match=r"only save Tensors, but argument 1 .* ctx.name = value"):
            slope(lambda ctx, x, y: ctx.save_for_backward(x, y))


class Several(Function):
    """All that a Function may have: constants, containers, other results, attributes, saved Nones."""

    @staticmethod
    def forward(x, pair, scale=2.0, *, shift=0.0):
        return x * scale + shift, {"sum": pair[0] + pair[1]}, x * 0, "text", (x > 2.0)

    @staticmethod
    def setup_context(ctx, inputs, output, keyword_only_inputs):
        x, _, scale = inputs
        ctx.save_for_backward(x, None, output[0])
        ctx.mark_non_differentiable(output[2])
        ctx.scale, ctx.kept, ctx.array = scale, x * 10.0, x.array

    @staticmethod
    def backward(ctx, g, tree, constant, text, flags):
        x, nothing, _ = ctx.saved_tensors
        assert (nothing, text, flags) == (None, None, None)
        assert constant.array.shape == x.shape
        assert not oplib.is_grad_enabled()
        assert ctx.needs_input_grad == (True, [True, True], False, False)
        assert ctx.array.shape == x.shape
        return g * ctx.scale * 100 + ctx.kept + constant, [tree["sum"] * x, None], None, None


def test_all_that_a_function_may_return_goes_through():
    def loss(x, y, z):
        first, tree, constant, text, flags = Several.apply(
            oplib.Tensor.from_array(x), [oplib.Tensor.from_array(y), oplib.Tensor.from_array(z)], shift=1.0
        )
        assert (text, flags.array.dtype) == ("text", jnp.bool_)
        return (first.array + tree["sum"].array * 3 + constant.array * 7).sum()

    for wrap in (lambda f: f, jax.jit):
        x, y, z = wrap(jax.grad(loss, argnums=(0, 1, 2)))(A, A, A)
        assert x.tolist() == [210.0, 230.0]
        assert y.tolist() == [3.0, 9.0]
        assert z.tolist() == [0.0, 0.0]


def test_integer_and_captured_inputs_have_no_gradient():
    class Pick(Function):
        @staticmethod
        def forward(ctx, x, index, plain):
            ctx.save_for_backward(index)
            return x[index] * plain

        @staticmethod
        def backward(ctx, g):
            (index,) = ctx.saved_tensors
            return oplib.Tensor.from_array(jnp.zeros(2).at[index.array].add(g.array)) * 9, None, None

    def loss(a):
        index = oplib.Tensor.from_array(jnp.array([1, 1]))
        return Pick.apply(oplib.Tensor.from_array(a), index, oplib.ones(2)).array.sum()

    assert jax.grad(loss)(A).tolist() == [0.0, 18.0]


def test_a_written_input_is_written_and_its_backward_found():
    def loss(a):
        h = oplib.Tensor.from_array(a) * 1
        assert Written.apply(h) is h
        return (h * h).array.sum()

    assert jax.grad(loss)(A).tolist() == [50.0, 150.0]


def test_a_tensor_from_outside_is_not_written_by_a_trace():
    outside = oplib.ones(2)

    def step(a):
        type("Adds", (Written,), {"forward": staticmethod(add_to), "backward": staticmethod(pass_on)}).apply(
            outside, oplib.Tensor.from_array(a)
        )
        return a

    def add_to(ctx, x, y):
        ctx.mark_dirty(x)
        return x.add_(y)

    def pass_on(ctx, g):
        return g, g

    with pytest.raises(TracingError, match="stored in a tensor made outside this trace"):
        jax.jit(step)(A)
    assert outside.tolist() == [1.0, 1.0]


def test_complex_gradients_are_those_of_jax():
    class Cube(Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z * z

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return g * oplib.Tensor.from_array(jnp.conj(3 * z.array**2))

    z = jnp.array([1.0 + 2.0j, 0.5 - 1.0j])
    weight = jnp.array([2.0 - 1.0j, 1.0j])

    def loss(f):
        return lambda a: (f(a) * weight).sum().real

    ours = jax.grad(loss(lambda a: Cube.apply(oplib.Tensor.from_array(a)).array))(z)
    assert jnp.allclose(ours, jax.grad(loss(lambda a: a**3))(z))


def test_gradients_are_summed_and_cast_to_their_inputs():
    class Wide(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return oplib.ones(4, 2, dtype=oplib.float16)

    def loss(f):
        return lambda a: f.apply(oplib.Tensor.from_array(a)).array.sum()

    assert jax.grad(loss(Wide))(A).tolist() == [4.0, 4.0]
    wrong = type("Wrong", (Wide,), {"backward": staticmethod(lambda ctx, g: oplib.ones(7))})
    with pytest.raises(RuntimeError, match="Wrong: the formula returned an invalid gradient at index 0"):
        jax.grad(loss(wrong))(A)


def test_a_written_input_is_written_in_the_trace():
    def step(array):
        leaf = oplib.Tensor.from_array(array, requires_grad=True)
        h = leaf * 1
        assert Written.apply(h) is h
        return h.array, grad(h.sum(), leaf)[0].array

    value, slope = jax.jit(step)(A)
    assert value.tolist() == [5.0, 15.0]
    assert slope.tolist() == [5.0, 5.0]


def test_a_traced_gradient_does_not_reach_a_tensor_from_outside():
    outside = oplib.ones(2, requires_grad=True)

    def step(array):
        (Tripled.apply(outside) * oplib.Tensor.from_array(array)).sum().backward()
        return array

    with pytest.raises(RuntimeError, match="made outside this trace"):
        jax.jit(step)(A)
    assert outside.grad is None
