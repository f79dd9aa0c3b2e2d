"""The marks of inputs and outputs on a ctx, and the names that it reserves."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Function, grad
from oplib.errors import AutogradError, GradientTypeError
from tests.autograd.functions import make_function

# One tensor in several places ----------------------------------------------------------------


def test_one_output_twice_is_one_tensor_in_the_last_slot(x):
    def forward(ctx, a):
        b = a * 2
        return b, b

    seen = []

    def backward(ctx, g, h):
        seen.append((g.tolist(), h.tolist()))
        return g * 2 + h * 20

    first, second = make_function(forward, backward).apply(x)
    assert first is second
    assert first.output_nr == 1
    first.sum().backward()
    assert seen == [([0.0, 0.0], [1.0, 1.0])]
    assert x.grad.tolist() == [20.0, 20.0]


def test_one_input_returned_twice_is_two_tensors(x):
    first, second = make_function(lambda ctx, a: (a, a), lambda ctx, g, h: g * 2 + h * 20).apply(x)
    assert first is not second
    assert (first.output_nr, second.output_nr) == (0, 1)
    (first + second).sum().backward()
    assert x.grad.tolist() == [22.0, 22.0]


def test_one_tensor_given_twice_gets_both_gradients(x):
    first, second = make_function(lambda ctx, a, b: (a, b), lambda ctx, g, h: (g * 2, h * 3)).apply(x, x)
    (first + second).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_written_input_returned_twice_stays_one_tensor(x):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.add_(1.0), a

    h = x * 1
    first, second = make_function(forward, lambda ctx, g, k: g * 2 + k * 20).apply(h)
    assert first is second is h
    (first + second).sum().backward()
    assert x.grad.tolist() == [40.0, 40.0]


def test_a_returned_input_is_not_written_where_its_backward_would_be_passed_by(x):
    y = make_function(lambda ctx, a: a, lambda ctx, g: g).apply(x * 1)
    with pytest.raises(AutogradError, match="Made"):
        y.add_(1.0)


def test_a_returned_constant_is_written_through():
    plain = oplib.ones(2)
    y = make_function(lambda ctx, a: a).apply(plain)
    y.add_(1.0)
    assert (plain.tolist(), plain._version) == ([2.0, 2.0], 1)


# Written ------------------------------------------------------------------------------------


def write(ctx, a, *rest):
    ctx.mark_dirty(a)
    return a.add_(rest[0] if rest else 1.0)


def test_a_written_constant_gets_a_history_from_the_other_input(x):
    plain = oplib.ones(2)
    y = make_function(write, lambda ctx, g, h=None: (None, g * 7)).apply(plain, x)
    assert y is plain
    assert (y.is_leaf, y.requires_grad) == (False, True)
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_a_written_constant_stays_one_without_need():
    plain = oplib.ones(2)
    y = make_function(write).apply(plain)
    assert y is plain
    assert y.grad_fn is None
    assert y._version == 2  # by the write, and by the mark, as in torch


def test_a_leaf_may_be_written_where_nothing_is_recorded(x):
    with oplib.no_grad():
        make_function(write).apply(x)
    assert x.tolist() == [2.0, 3.0]
    assert x.is_leaf


def test_written_and_constant_is_a_new_constant(x):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        ctx.mark_non_differentiable(a)
        return a.add_(1.0)

    h = x * 1
    y = make_function(forward).apply(h)
    assert y is not h
    assert (y.requires_grad, y.tolist()) == (False, [2.0, 3.0])


@pytest.mark.parametrize("method", ["mark_dirty", "mark_non_differentiable"])
def test_only_tensors_are_marked(x, method):
    def forward(ctx, a):
        getattr(ctx, method)(a, 5)
        return a * 2

    with pytest.raises(
        AutogradError, match=rf"{method}: it can only accept Tensors, but argument 1 is of type int"
    ):
        make_function(forward).apply(x)


def test_set_materialize_grads_takes_a_bool(x):
    def forward(ctx, a):
        ctx.set_materialize_grads(5)
        return a * 2

    with pytest.raises(GradientTypeError, match=r"set_materialize_grads: it takes a bool. Got int"):
        make_function(forward).apply(x)


def test_a_written_view_is_the_only_result(x):
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.add_(1.0), a * 2

    with pytest.raises(AutogradError, match=r"is a view of another Tensor cannot return more than one") as e:
        make_function(forward).apply((x * 1)[:1])
    assert "f32[1]" in str(e.value)


def test_a_written_view_gives_its_base_the_history(x):
    base = x * 1
    part = base[:1]
    assert make_function(write, lambda ctx, g: g * 7).apply(part) is part
    base.sum().backward()
    assert base.tolist() == [2.0, 2.0]
    assert x.grad.tolist() == [7.0, 1.0]


# Constant -----------------------------------------------------------------------------------


def test_a_constant_input_is_returned_as_a_new_constant(x):
    def forward(ctx, a):
        ctx.mark_non_differentiable(a)
        return a

    y = make_function(forward).apply(x)
    assert y is not x
    assert not y.requires_grad
    assert x.requires_grad


def test_marking_what_is_not_returned_has_no_effect(x):
    def forward(ctx, a):
        ctx.mark_non_differentiable(a)
        return a * 2

    assert make_function(forward).apply(x).requires_grad


# Undefined gradients ------------------------------------------------------------------------


@pytest.mark.parametrize(("materialize", "expected"), [(True, [0.0, 0.0]), (False, None)])
def test_an_undefined_gradient_arrives_as_zeros_or_none(x, materialize, expected):
    seen = []

    def forward(ctx, a):
        ctx.set_materialize_grads(materialize)
        return a * 2

    def backward(ctx, g):
        seen.append(g if g is None else g.tolist())
        return g

    inner = make_function(forward, backward).apply(x)
    outer = make_function(lambda ctx, a: a * 1, lambda ctx, g: None).apply(inner)
    outer.sum().backward()
    assert seen == [expected]
    assert x.grad is None if expected is None else x.grad.tolist() == expected


@pytest.mark.parametrize("create_graph", [False, True])
def test_zeros_have_shape_and_dtype_of_their_output(x, create_graph):
    seen = []

    def backward(ctx, g, h):
        seen.append((h.shape, h.dtype.name, h.requires_grad))
        return g

    first, _ = make_function(lambda ctx, a: (a * 1, oplib.ones(3, 1, dtype=oplib.float16)), backward).apply(x)
    grad(first.sum(), x, create_graph=create_graph)
    assert seen == [((3, 1), "float16", False)]


# Names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["edges", "sequence_nr", "name", "apply", "release", "requires_grad", "_saved"]
)
def test_a_name_that_a_node_has_is_refused(x, name):
    def forward(ctx, a):
        setattr(ctx, name, 5)
        return a * 2

    if name == "_saved":
        assert make_function(forward).apply(oplib.ones(1)).tolist() == [2.0]
        return
    with pytest.raises(AutogradError, match=rf"MadeBackward: ctx\.{name} was set in forward"):
        make_function(forward).apply(x)


@pytest.mark.parametrize("name", ["next_functions", "metadata", "_input_metadata"])
def test_a_name_that_is_computed_cannot_be_set(x, name):
    def forward(ctx, a):
        setattr(ctx, name, 5)
        return a * 2

    with pytest.raises(AttributeError, match=f"property '{name}' of 'MadeBackward' object has no setter"):
        make_function(forward).apply(x)


def test_other_names_are_the_users_own(x):
    def forward(ctx, a):
        ctx.shape, ctx.k, ctx.inputs = a.shape, 3, [1]
        return a * 2

    node = make_function(forward).apply(x).grad_fn
    assert (node.shape, node.k, node.inputs) == ((2,), 3, [1])


class Rounded(Function):
    """The identity, whose result has half precision, and whose backward gets another one."""

    declared: ClassVar[tuple[Any, ...]] = (oplib.float32,)
    got: ClassVar[list[Any]] = []

    @staticmethod
    def forward(ctx, x):
        ctx.set_output_grad_dtype(*Rounded.declared)
        return x.to(oplib.float16)

    @staticmethod
    def backward(ctx, g):
        Rounded.got.append(g.dtype)
        return g.to(oplib.float32) * 2


class Third(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.to(oplib.float32) / 3


@pytest.fixture
def got():
    Rounded.got.clear()
    yield Rounded.got
    Rounded.declared = (oplib.float32,)


DTYPES = {
    "cast": ((oplib.float32,), oplib.float32, 2 / 3),
    "as it arrives": ((None,), oplib.float32, 2 / 3),
    "its own": ((oplib.float16,), oplib.float16, 2 * float(np.float16(1 / 3))),
}


@pytest.mark.spec("D.60")
@pytest.mark.parametrize(("declared", "dtype", "grad"), DTYPES.values(), ids=DTYPES)
def test_a_gradient_arrives_in_the_dtype_that_was_set_for_it(got, declared, dtype, grad):
    Rounded.declared = declared
    x = oplib.tensor([1.0], requires_grad=True)
    Third.apply(Rounded.apply(x)).sum().backward()
    assert got == [dtype]
    assert x.grad.tolist() == [pytest.approx(grad, rel=1e-7)]
    first = oplib.autograd.grad(Rounded.apply(x).square().sum(), x, create_graph=True)[0]
    assert first.tolist() == [4]
    assert oplib.autograd.grad(first.sum(), x)[0].tolist() == [8]


@pytest.mark.spec("D.60")
@pytest.mark.parametrize("around", [lambda f: f, jax.jit, jax.vmap], ids=["grad", "jit", "vmap"])
def test_on_arrays_a_gradient_is_cast_too(got, around):
    grad = around(jax.grad(lambda x: Rounded.apply(x).astype(jnp.float32).sum()))
    assert grad(jnp.ones(2) if around is jax.vmap else jnp.ones(())).tolist() == (
        [2, 2] if around is jax.vmap else 2
    )
    assert set(got) == {oplib.float32}


@pytest.mark.spec("D.60")
def test_dtypes_of_gradients_that_do_not_fit_the_results_are_refused(got):
    x = oplib.tensor([1.0], requires_grad=True)
    Rounded.declared = (None, None)
    with pytest.raises(AutogradError, match=r"for each result of forward. Got 2 for 1. Give one for each"):
        Rounded.apply(x)

    class Place(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_output_grad_dtype(oplib.float32)
            return x.argmax()

        @staticmethod
        def backward(ctx, g):
            return None

    with pytest.raises(AutogradError, match=r"got float32 for result 0, which has no gradient. Give None"):
        Place.apply(x)

    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_output_grad_dtype(None)
            ctx.set_output_grad_dtype(None)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(AutogradError, match=r"set_output_grad_dtype: it was called before. .* Call it once"):
        Twice.apply(x)

    class OnArrays(Function):
        @staticmethod
        def forward(ctx, x: jax.Array) -> jax.Array:
            ctx.set_output_grad_dtype(None)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(AutogradError, match=r"in JAX a gradient has the dtype of its result. .* Cast it in"):
        OnArrays.apply(x)
