"""Kernels that run as plain Python (``compile=False``), and JAX's derivative of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad
from oplib.errors import AutogradError, TracingError
from oplib.library import CustomOpDef, custom_op

VALUES = [1.0, 2.0]
COS = np.cos(np.array(VALUES, np.float32))


def make_sine(seen: list[Any], *, compiled: bool) -> CustomOpDef:
    """A sine with JAX's derivative, whose kernel branches on values and records them."""

    @custom_op("plain::sine", compile=None if compiled else False)
    def sine(x: jax.Array) -> jax.Array:
        seen.append(float(jax.lax.stop_gradient(x).sum()))
        return jnp.sin(x) if x.sum() > 0 else x

    sine.register_autograd("derive")
    return sine


def make_counted(seen: list[int]) -> CustomOpDef:
    """``y sin(x) x``, and a result without a gradient. It notes each run."""

    @custom_op("plain::counted", compile=False, autograd="derive")
    def counted(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        seen.append(1)
        return compute(x, y), jnp.argmax(x)

    return counted


def compute(x: Any, y: Any) -> Any:
    return y * jnp.sin(x) * x


def differentiate(order: int, y: jax.Array) -> Any:
    """JAX's derivative of the sum of :func:`compute` by its first argument."""
    function = lambda x: compute(x, y).sum()  # noqa: E731  wrapped below
    for _ in range(order):
        function = partial(lambda inner, x: jax.grad(inner)(x).sum(), function)
    return function


def make_leaf() -> oplib.Tensor:
    return oplib.tensor(VALUES, requires_grad=True)


def test_a_derived_kernel_sees_values_and_runs_once_for_forward_and_backward() -> None:
    seen: list[Any] = []
    x = make_leaf()
    y = make_sine(seen, compiled=False)(x).sum()
    assert seen == [3.0]
    y.backward()
    assert seen == [3.0]
    np.testing.assert_allclose(x.grad.array, COS, rtol=1e-6)


def test_the_kernel_runs_once_more_for_each_order_that_is_asked_for() -> None:
    seen: list[int] = []
    x, y = make_leaf(), oplib.tensor([3.0, 4.0], requires_grad=True)
    result = make_counted(seen)(x, y)[0]
    (first,) = oplib.autograd.grad(result.sum(), x, create_graph=True)
    assert len(seen) == 1
    (second,) = oplib.autograd.grad(first.sum(), x, create_graph=True)
    assert len(seen) == 2
    third, mixed = oplib.autograd.grad(second.sum(), (x, y))
    assert len(seen) == 3
    at = jnp.array(VALUES)
    for order, found in enumerate((first, second, third)):
        expected = jax.grad(differentiate(order, y.array))(at)
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5)
    expected = jax.grad(lambda y: jax.grad(differentiate(1, y))(at).sum())(y.array)
    np.testing.assert_allclose(mixed.numpy(), expected, rtol=1e-5)


def test_a_checkpoint_runs_the_kernel_once_more() -> None:
    seen: list[int] = []
    x, y = make_leaf(), oplib.tensor([3.0, 4.0])
    counted = make_counted(seen)
    checkpoint = oplib.utils.checkpoint.checkpoint
    checkpoint(lambda x: counted(x, y)[0], x, use_reentrant=False).sum().backward()
    assert len(seen) == 2
    np.testing.assert_allclose(x.grad.numpy(), jax.grad(differentiate(0, y.array))(x.array), rtol=1e-6)


def test_the_kernel_runs_once_under_jax_grad_and_can_be_checkpointed() -> None:
    seen: list[int] = []
    counted, at, y = make_counted(seen), jnp.array(VALUES), jnp.array([3.0, 4.0])
    jax.grad(lambda x: counted(x, y)[0].sum())(at)
    assert len(seen) == 1
    np.testing.assert_allclose(
        jax.grad(jax.checkpoint(lambda x: counted(x, y)[0].sum()))(at),
        jax.grad(differentiate(0, y))(at),
        rtol=1e-6,
    )


def test_forward_mode_over_the_backward_goes_through_the_kernel() -> None:
    x, y = make_leaf(), oplib.tensor([3.0, 4.0])
    counted = make_counted([])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, oplib.ones(2))
        (grad,) = oplib.autograd.grad(counted(dual, y)[0].sum(), dual, create_graph=True)
        tangent = forward_ad.unpack_dual(grad).tangent
    assert tangent is not None
    expected = jax.grad(differentiate(1, y.array))(x.array)
    np.testing.assert_allclose(tangent.detach().numpy(), expected, rtol=1e-5)


def test_several_backwards_with_a_batch_of_cotangents_are_those_of_jax() -> None:
    x, y = make_leaf(), oplib.tensor([3.0, 4.0])
    result = make_counted([])(x, y)[0]
    (rows,) = oplib.autograd.grad(result, x, oplib.eye(2), is_grads_batched=True, retain_graph=True)
    expected = jax.jacobian(lambda x: compute(x, y.array))(x.array)
    np.testing.assert_allclose(rows.numpy(), expected, rtol=1e-6)
    result.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), expected.sum(0), rtol=1e-6)


def test_a_mapped_function_differentiates_a_call_whose_arguments_are_not_mapped() -> None:
    x, y = make_leaf(), oplib.tensor([3.0, 4.0])
    counted = make_counted([])

    def penalty(scale: oplib.Tensor) -> oplib.Tensor:
        (grad,) = oplib.autograd.grad(counted(x, y)[0].sum(), x, create_graph=True)
        return (grad * scale).sum()

    oplib.vmap(penalty)(oplib.tensor([1.0, 2.0])).sum().backward()
    expected = 3 * jax.grad(differentiate(1, y.array))(x.array)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)


def test_a_backward_frees_what_the_run_has_kept() -> None:
    x, y = make_leaf(), oplib.tensor([3.0, 4.0])
    result = make_counted([])(x, y)[0].sum()
    result.backward()
    with pytest.raises(AutogradError, match="second time"):
        result.backward()


def test_an_intermediate_that_a_plain_setup_saves_has_a_second_derivative() -> None:
    seen: list[int] = []

    @custom_op("plain::saving", compile=False)
    def saving(x: jax.Array) -> jax.Array:
        seen.append(1)
        return jnp.sin(x)

    saving.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(jnp.cos(inputs[0])),
    )
    x = make_leaf()
    (grad,) = oplib.autograd.grad(saving(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(oplib.autograd.grad(grad.sum(), x)[0].array, -np.sin(VALUES), rtol=1e-6)
    assert len(seen) == 1


def test_it_sees_values_in_the_second_derivative_and_in_forward_mode() -> None:
    seen: list[Any] = []
    sine, x = make_sine(seen, compiled=False), make_leaf()
    (grad,) = oplib.autograd.grad(sine(x).sum(), x, create_graph=True)
    np.testing.assert_allclose(oplib.autograd.grad(grad.sum(), x)[0].array, -np.sin(VALUES), rtol=1e-6)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(sine(forward_ad.make_dual(x, oplib.ones(2)))).tangent
    np.testing.assert_allclose(tangent.array, COS, rtol=1e-6)
    assert set(seen) == {3.0}


def test_a_kernel_that_is_not_compiled_for_debugging_sees_values_too(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(oplib.config, "compile_kernels", False)
    x = make_leaf()
    make_sine(seen, compiled=True)(x).sum().backward()
    assert set(seen) == {3.0}
    np.testing.assert_allclose(x.grad.array, COS, rtol=1e-6)


def test_a_jvp_rule_alone_differentiates_it_in_both_modes_and_sees_values() -> None:
    seen: list[float] = []

    @custom_op("plain::ruled", compile=False)
    def ruled(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.sin(x), jnp.argmax(x)

    @ruled.register_jvp
    def push(primals, tangents):
        seen.append(float(primals[0].sum()))
        return (jnp.sin(primals[0]), jnp.argmax(primals[0])), (5 * tangents[0] * jnp.cos(primals[0]), None)

    x = make_leaf()
    ruled(x)[0].sum().backward()
    np.testing.assert_allclose(x.grad.array, 5 * COS, rtol=1e-6)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), oplib.ones(2))
        tangent = forward_ad.unpack_dual(ruled(dual)[0]).tangent
    np.testing.assert_allclose(tangent.array, 5 * COS, rtol=1e-6)
    assert seen == [3.0, 3.0]


def test_a_value_that_jax_hides_raises_with_the_cure() -> None:
    @custom_op("plain::reads", compile=False)
    def reads(x: jax.Array) -> jax.Array:
        return x * float(x.sum())

    reads.register_autograd("derive")
    assert reads(oplib.tensor(VALUES)).tolist() == [3.0, 6.0]
    with pytest.raises(
        TracingError, match=r"plain::reads: the kernel needs the concrete value.*jax\.lax\.stop_gradient"
    ):
        reads(make_leaf())


def test_every_input_of_a_derived_plain_kernel_counts_as_saved() -> None:
    sine, x = make_sine([], compiled=False), make_leaf()
    between = x * 1
    y = sine(between)
    between.add_(1)
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        y.sum().backward()


def test_under_jit_it_is_traced_as_any_kernel() -> None:
    @custom_op("plain::traced", compile=False)
    def traced(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    traced.register_autograd("derive")
    np.testing.assert_allclose(
        jax.jit(jax.grad(lambda x: traced(x).sum()))(jnp.array(VALUES)), COS, rtol=1e-6
    )
