"""Kernels that run as plain Python (``compile=False``), and JAX's derivative of them."""

from __future__ import annotations

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


def make_leaf() -> oplib.Tensor:
    return oplib.tensor(VALUES, requires_grad=True)


def test_a_derived_kernel_sees_values_in_forward_and_backward() -> None:
    seen: list[Any] = []
    x = make_leaf()
    y = make_sine(seen, compiled=False)(x).sum()
    assert seen == [3.0]
    y.backward()
    assert seen == [3.0, 3.0]
    np.testing.assert_allclose(x.grad.array, COS, rtol=1e-6)


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
        tangent = forward_ad.unpack_dual(ruled(forward_ad.make_dual(x, oplib.ones(2)))[0]).tangent
    np.testing.assert_allclose(tangent.array, 5 * COS, rtol=1e-6)
    assert seen == [3.0, 3.0]


def test_a_value_that_jax_hides_raises_with_the_cure() -> None:
    @custom_op("plain::reads", compile=False)
    def reads(x: jax.Array) -> jax.Array:
        return x * float(x.sum())

    reads.register_autograd("derive")
    y = reads(make_leaf())
    with pytest.raises(
        TracingError, match=r"plain::reads: the kernel needs the concrete value.*jax\.lax\.stop_gradient"
    ):
        y.sum().backward()


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
