"""Dual levels: what opens and closes them, what a dual tensor is, and what carries its tangent on."""

from __future__ import annotations

import copy
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad
from oplib.autograd.forward_ad import (
    dual_level,
    enter_dual_level,
    exit_dual_level,
    make_dual,
    unpack_dual,
)
from oplib.errors import AutogradError, DataTypeError, GradientValueError
from oplib.modes import modes
from tests.threads import run_in_thread

X, T = [1.0, 2.0], [3.0, 4.0]


def make(grad: bool = False) -> Any:
    return oplib.tensor(X, requires_grad=grad), oplib.tensor(T)


def tangent_of(tensor: Any) -> Any:
    tangent = unpack_dual(tensor).tangent
    return None if tangent is None else tangent.tolist()


# Levels -----------------------------------------------------------------------------------------------------


def test_the_level_has_number_zero() -> None:
    with dual_level() as level:
        assert level == 0


def test_a_second_level_inside_is_refused_and_the_first_stays_open() -> None:
    with dual_level():
        dual = make_dual(*make())
        with pytest.raises(AutogradError, match="Nested forward mode AD is not supported"):
            enter_dual_level()
        assert tangent_of(dual) == T


def test_leaving_without_a_level_is_refused() -> None:
    with pytest.raises(AutogradError, match="No level is open"):
        exit_dual_level()


def test_leaving_another_level_is_refused_and_the_open_one_stays() -> None:
    with dual_level():
        with pytest.raises(AutogradError, match="not the last one that was created"):
            exit_dual_level(level=5)
        assert tangent_of(make_dual(*make())) == T


def test_an_exception_closes_the_level() -> None:
    with pytest.raises(KeyError), dual_level():
        raise KeyError
    assert unpack_dual(make()[0]).tangent is None


def test_each_call_of_a_decorated_function_has_a_level_of_its_own() -> None:
    @dual_level()
    def double() -> Any:
        return tangent_of(make_dual(*make()) * 2)

    assert double() == double() == [6.0, 8.0]


def test_tangents_are_gone_when_the_level_closes_and_do_not_come_back() -> None:
    with dual_level():
        dual = make_dual(*make())
        result = dual * 2
    with dual_level():
        assert tangent_of(dual) is None
        assert tangent_of(result) is None
    assert repr(dual) == "tensor([1., 2.])"


@pytest.mark.usefixtures("collector_off")
def test_a_closed_level_holds_nothing() -> None:
    with dual_level():
        x, t = make(grad=True)
        dual = make_dual(x, t)
        watched = [weakref.ref((dual * dual * t).sum())]
        tangent = unpack_dual(dual * t).tangent
        watched.append(weakref.ref(tangent))
        del tangent, x, t, dual
    assert [reference() for reference in watched] == [None, None]


def test_another_thread_has_no_level() -> None:
    with dual_level():
        dual = make_dual(*make())
        assert tangent_of(dual * 2) is not None
        assert run_in_thread(lambda: tangent_of(dual * 2)) is None


# Making and unpacking ---------------------------------------------------------------------------------------


def test_the_tangent_comes_back_as_the_very_tensor() -> None:
    x, t = make()
    with dual_level():
        assert unpack_dual(make_dual(x, t)).tangent is t


def test_a_dual_shares_the_storage_of_its_tensor() -> None:
    x, t = make()
    with dual_level():
        dual = make_dual(x, t)
        dual.mul_(2)
        assert x.tolist() == [2.0, 4.0]
        assert tangent_of(x) is None


def test_the_primal_has_no_tangent() -> None:
    with dual_level():
        primal = unpack_dual(make_dual(*make())).primal
        assert primal.tolist() == X
        assert tangent_of(primal) is None


def test_outside_of_a_level_unpacking_gives_the_tensor_itself() -> None:
    x = make()[0]
    primal, tangent = unpack_dual(x)
    assert primal is x
    assert tangent is None


def test_a_dual_shows_its_tangent() -> None:
    with dual_level():
        assert repr(make_dual(*make())) == "tensor([1., 2.], tangent=tensor([3., 4.]))"


@pytest.mark.parametrize(
    ("primal", "tangent", "kind", "text"),
    [
        ([1, 2], T, GradientValueError, "Expected primal to be floating point or complex, but got: i32"),
        (X, [1, 2], GradientValueError, "Expected tangent to be floating point or complex, but got: i32"),
        (
            X,
            [1.0],
            AutogradError,
            r"Tensor is of size \[2\] while the given forward gradient is of size \[1\]",
        ),
        (X, [1j, 2j], AutogradError, "tangent of a real tensor must be real"),
    ],
)
def test_a_tangent_that_does_not_fit_is_refused(primal: Any, tangent: Any, kind: type, text: str) -> None:
    x = oplib.tensor(primal)
    with dual_level():
        with pytest.raises(kind, match=text):
            make_dual(x, oplib.tensor(tangent))
        assert tangent_of(x) is None


def test_a_dual_outside_of_a_level_is_refused() -> None:
    with pytest.raises(AutogradError, match="no level exists"):
        make_dual(*make())


def test_a_level_that_is_not_there_is_refused() -> None:
    x, t = make()
    with pytest.raises(AutogradError, match="invalid index"):
        make_dual(x, t, level=0)
    with dual_level(), pytest.raises(AutogradError, match="Invalid level given"):
        make_dual(x, t, level=1)
    with dual_level(), pytest.raises(AutogradError, match="Invalid level given"):
        unpack_dual(x, level=1)


def test_a_dual_of_a_dual_is_refused() -> None:
    x, t = make()
    with dual_level():
        dual = make_dual(x, t)
        with pytest.raises(AutogradError, match="already has a forward gradient"):
            make_dual(dual, t)
        with pytest.raises(AutogradError, match="itself has a forward gradient"):
            make_dual(x, dual)


def test_an_object_that_is_no_tensor_is_refused() -> None:
    x, t = make()
    with dual_level():
        with pytest.raises(DataTypeError, match=r"'primal' must be a Tensor. Got float"):
            make_dual(1.0, t)  # pyright: ignore[reportArgumentType]
        with pytest.raises(DataTypeError, match=r"'tangent' must be a Tensor. Got list"):
            make_dual(x, T)  # pyright: ignore[reportArgumentType]
        with pytest.raises(DataTypeError, match=r"'tensor' must be a Tensor. Got int"):
            unpack_dual(1)  # pyright: ignore[reportArgumentType]


# Operations that carry tangents -----------------------------------------------------------------------------


def test_ops_carry_the_tangent_that_jax_computes() -> None:
    def program(module: Any, x: Any) -> Any:
        return module.sum(module.tanh(x * x) @ module.exp(-x) + x[0] / x)

    x = jnp.asarray([[0.5, -1.0], [2.0, 0.25]])
    t = jnp.asarray([[1.0, 2.0], [-3.0, 0.5]])
    value, tangent = jax.jvp(lambda array: program(jnp, array), (x,), (t,))
    with dual_level():
        dual = make_dual(oplib.Tensor.from_array(x), oplib.Tensor.from_array(t))
        ours = unpack_dual(program(oplib, dual))
    assert ours.primal.item() == pytest.approx(float(value), rel=1e-6)
    assert ours.tangent is not None
    assert ours.tangent.item() == pytest.approx(float(tangent), rel=1e-5)


def test_an_operand_without_a_tangent_is_a_constant() -> None:
    x, t = make()
    with dual_level():
        assert tangent_of(make_dual(x, t) * x) == [3.0, 8.0]
        assert tangent_of(x * x) is None


def test_no_grad_does_not_stop_tangents() -> None:
    with dual_level(), oplib.no_grad():
        assert tangent_of(make_dual(*make()) * 2) == [6.0, 8.0]


def test_inference_mode_stops_tangents() -> None:
    with dual_level(), oplib.inference_mode():
        assert tangent_of(make_dual(*make()) * 2) is None


def test_switched_off_no_tangent_is_shown_or_carried_and_on_again_it_is_back() -> None:
    with dual_level():
        dual = make_dual(*make())
        with forward_ad._set_fwd_grad_enabled(False):
            assert not forward_ad._is_fwd_grad_enabled()
            assert tangent_of(dual) is None
            result = dual * 2
        assert tangent_of(result) is None
        assert tangent_of(dual) == T


def test_the_switch_works_as_a_call_too() -> None:
    forward_ad._set_fwd_grad_enabled(False)
    try:
        assert not forward_ad._is_fwd_grad_enabled()
    finally:
        forward_ad._set_fwd_grad_enabled(True)
    assert forward_ad._is_fwd_grad_enabled()


def make_doubling(inside: Any) -> Any:
    """Returns a Function that calls ``inside`` on the argument of forward, and of jvp."""

    class Doubling(oplib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            inside(x)
            return x * 2

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            inside(tangent)
            return tangent * 2

    return Doubling


def test_a_level_watches_no_call_for_which_forward_mode_is_off() -> None:
    seen = []
    outside = modes.state.watchers
    with dual_level():
        dual = make_dual(*make())
        assert tangent_of(make_doubling(lambda _: seen.append(modes.state.watchers)).apply(dual)) == [
            6.0,
            8.0,
        ]
        assert modes.state.watchers == outside + 1
        with forward_ad._set_fwd_grad_enabled(False):
            seen.append(modes.state.watchers)
            assert (dual * 2).tolist() == [2.0, 4.0]
    assert seen == [outside] * 3
    assert modes.state.watchers == outside


def test_forward_mode_that_a_forward_switches_on_carries_tangents_there() -> None:
    x, t = make()
    seen = []

    def inside(_: Any) -> None:
        with forward_ad._set_fwd_grad_enabled(True):
            seen.append(tangent_of(dual * 3))
        forward_ad._set_fwd_grad_enabled(True)
        seen.append(tangent_of(dual * 3))

    outside = modes.state.watchers
    with dual_level():
        dual = make_dual(x, t)
        make_doubling(inside).apply(dual)
        assert modes.state.watchers == outside + 1
    assert seen == [[9.0, 12.0]] * 4
    assert modes.state.watchers == outside


def test_a_level_may_be_opened_and_closed_where_forward_mode_is_off() -> None:
    outside = modes.state.watchers
    make_doubling(lambda _: enter_dual_level()).apply(make()[0])
    assert tangent_of(make_dual(*make()) * 2) == [6.0, 8.0]
    make_doubling(lambda _: exit_dual_level()).apply(make()[0])
    assert modes.state.watchers == outside
    with forward_ad._set_fwd_grad_enabled(False):
        enter_dual_level()
    assert tangent_of(make_dual(*make()) * 2) == [6.0, 8.0]
    with forward_ad._set_fwd_grad_enabled(False):
        exit_dual_level()
    assert modes.state.watchers == outside


def test_a_forward_that_raises_in_a_level_leaves_its_watchers() -> None:
    def fail(_: Any) -> None:
        raise ValueError("inside")

    outside = modes.state.watchers
    with dual_level():
        dual = make_dual(*make())
        with pytest.raises(ValueError, match="inside"):
            make_doubling(fail).apply(dual)
        assert tangent_of(dual * 2) == [6.0, 8.0]
    assert modes.state.watchers == outside


@pytest.mark.parametrize(
    "make_other",
    [
        lambda dual: dual.detach(),
        oplib.zeros_like,
        oplib.ones_like,
        lambda dual: dual > 1,
        copy.copy,
        copy.deepcopy,
        lambda dual: dual.new_zeros(2),
    ],
    ids=["detach", "zeros_like", "ones_like", "comparison", "copy", "deepcopy", "new_zeros"],
)
def test_what_does_not_depend_on_the_values_has_no_tangent(make_other: Any) -> None:
    with dual_level():
        assert tangent_of(make_other(make_dual(*make()))) is None


def test_a_tangent_follows_a_conversion() -> None:
    with dual_level():
        half = unpack_dual(make_dual(*make()).to(oplib.float16)).tangent
        assert half is not None
        assert half.dtype == oplib.float16


def test_a_tangent_of_another_dtype_is_kept_and_converted_when_it_is_used() -> None:
    x, t = make()
    with dual_level():
        dual = make_dual(x, t.to(oplib.float16))
        kept, used = unpack_dual(dual).tangent, unpack_dual(dual * 2).tangent
        assert kept is not None
        assert used is not None
        assert (kept.dtype, used.dtype) == (oplib.float16, oplib.float32)


def test_complex_tangents_are_those_of_jax() -> None:
    z, t = jnp.asarray([3 + 4j]), jnp.asarray([1 + 1j])
    expected = jax.jvp(lambda value: jnp.abs(value * value * (2 + 1j)), (z,), (t,))[1]
    with dual_level():
        dual = make_dual(oplib.Tensor.from_array(z), oplib.Tensor.from_array(t))
        found = tangent_of(oplib.abs(dual * dual * (2 + 1j)))
    assert found == pytest.approx(expected.tolist(), rel=1e-6)


def test_duals_work_inside_jit() -> None:
    def derivative(x: Any, t: Any) -> Any:
        with dual_level():
            dual = make_dual(oplib.Tensor.from_array(x), oplib.Tensor.from_array(t))
            tangent = unpack_dual(oplib.exp(dual) * dual).tangent
            assert tangent is not None
            return tangent.array

    x, t = jnp.asarray(X), jnp.asarray(T)
    expected = jax.jvp(lambda value: jnp.exp(value) * value, (x,), (t,))[1]
    assert jnp.allclose(jax.jit(derivative)(x, t), expected)


def test_a_tree_of_jax_refuses_a_tensor_with_a_tangent() -> None:
    with dual_level():
        dual = make_dual(*make())
        with pytest.raises(AutogradError, match="the tangent would be lost"):
            jax.tree_util.tree_leaves(dual)
        assert tangent_of(dual) == T


# In place ---------------------------------------------------------------------------------------------------


def test_writing_a_dual_writes_its_tangent_in_place() -> None:
    x, t = make()
    with dual_level():
        dual = make_dual(x, t)
        dual.mul_(2)
        assert unpack_dual(dual).tangent is t
    assert t.tolist() == [6.0, 8.0]


def test_writing_a_dual_into_a_plain_tensor_makes_it_dual() -> None:
    with dual_level():
        y = oplib.zeros(2)
        y.add_(make_dual(*make()))
        assert tangent_of(y) == T


def test_writing_a_part_gives_the_whole_a_tangent() -> None:
    with dual_level():
        y = oplib.zeros(2, 2)
        y[0] = make_dual(*make())
        assert tangent_of(y) == [T, [0.0, 0.0]]


@pytest.mark.parametrize(
    "write",
    [lambda d: d.zero_(), lambda d: d.fill_(3.0), lambda d: d.copy_(oplib.ones(2))],
    ids=["zero_", "fill_", "copy_"],
)
def test_writing_a_constant_leaves_a_tangent_of_zeros(write: Any) -> None:
    with dual_level():
        dual = make_dual(*make())
        write(dual)
        assert tangent_of(dual) == [0.0, 0.0]


def test_writing_into_integers_gives_them_no_tangent() -> None:
    with dual_level():
        counts = oplib.zeros(2, dtype=oplib.int32)
        counts.copy_(make_dual(*make()))
        assert counts.tolist() == [1, 2]
        assert tangent_of(counts) is None


def test_a_tangent_that_requires_grad_may_not_be_written_and_nothing_is() -> None:
    x, t = oplib.tensor(X), oplib.tensor(T, requires_grad=True)
    with dual_level():
        dual = make_dual(x, t)
        with pytest.raises(AutogradError, match="a leaf Variable that requires grad"):
            dual.mul_(2)
    assert (x.tolist(), t.tolist()) == (X, T)


# With the tape ----------------------------------------------------------------------------------------------


def cube(x: Any) -> Any:
    return (x * x * x).sum()


HESSIAN = jax.hessian(cube)(jnp.asarray(X))


def test_a_tangent_is_differentiable_by_the_primal() -> None:
    x, t = make(grad=True)
    with dual_level():
        tangent = unpack_dual(cube(make_dual(x, t))).tangent
        (found,) = oplib.autograd.grad(tangent, x)
    assert found.tolist() == pytest.approx((HESSIAN @ jnp.asarray(T)).tolist())


def test_a_tangent_is_differentiable_by_the_tangent() -> None:
    x, t = oplib.tensor(X), oplib.tensor(T, requires_grad=True)
    with dual_level():
        tangent = unpack_dual(cube(make_dual(x, t))).tangent
        (found,) = oplib.autograd.grad(tangent, t)
    assert found.tolist() == pytest.approx(jax.grad(cube)(jnp.asarray(X)).tolist())


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_taken_in_the_level_has_the_tangent_of_the_gradient(create_graph: bool) -> None:
    x, t = make(grad=True)
    with dual_level():
        (found,) = oplib.autograd.grad(cube(make_dual(x, t)), x, create_graph=create_graph)
        assert tangent_of(found) == pytest.approx((HESSIAN @ jnp.asarray(T)).tolist())
        assert found.requires_grad is create_graph


def test_a_gradient_has_a_tangent_through_saved_outputs() -> None:
    x, t = make(grad=True)
    with dual_level():
        (found,) = oplib.autograd.grad(make_dual(x, t).exp().sum(), x)
        second = tangent_of(found)
    assert second == pytest.approx((jnp.exp(jnp.asarray(X)) * jnp.asarray(T)).tolist(), rel=1e-6)


def test_batched_gradients_carry_tangents() -> None:
    x, t = make(grad=True)
    with dual_level():
        y = make_dual(x, t) ** 3
        (found,) = oplib.autograd.grad(y, x, oplib.eye(2), is_grads_batched=True)
        assert tangent_of(found) == [[18.0, 0.0], [0.0, 48.0]]


def test_a_dual_cotangent_gives_a_dual_gradient() -> None:
    x, t = make(grad=True)
    with dual_level():
        (found,) = oplib.autograd.grad(x * x, x, make_dual(oplib.ones(2), t))
        assert tangent_of(found) == [6.0, 16.0]


def test_backward_in_a_level_stores_a_plain_gradient() -> None:
    x, t = make(grad=True)
    with dual_level():
        cube(make_dual(x, t)).backward()
        assert tangent_of(x.grad) is None
    assert x.grad.tolist() == [3.0, 12.0]


def test_a_graph_outlives_its_level() -> None:
    x, t = make(grad=True)
    with dual_level():
        y = cube(make_dual(x, t))
    assert oplib.autograd.grad(y, x)[0].tolist() == [3.0, 12.0]


def test_a_saved_tangent_is_the_one_from_before_the_write() -> None:
    x, t = make(grad=True)
    with dual_level():
        y = make_dual(x, t) * 1
        y.mul_(y)
        (found,) = oplib.autograd.grad(y.sum(), x)
        assert found.tolist() == [2.0, 4.0]
        assert tangent_of(found) == [6.0, 8.0]


def test_an_output_that_a_function_saves_has_the_tangent_that_it_gets_later() -> None:
    class Exp(oplib.autograd.Function):
        @staticmethod
        def forward(x):
            return x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output)
            ctx.save_for_forward(output)

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * ctx.saved_tensors[0]

    x, t = oplib.tensor([0.0, 1.0], requires_grad=True), oplib.tensor([1.0, 2.0])
    with dual_level():
        (gradient,) = oplib.autograd.grad(Exp.apply(make_dual(x, t)).sum(), x)
        found = unpack_dual(gradient).tangent
    _, expected = jax.jvp(jax.grad(lambda x: jnp.exp(x).sum()), (x.detach().array,), (t.array,))
    assert found is not None
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
