"""Forward over reverse mode, where no forward mode can be derived: as for a ``custom_vjp``, by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from oplib.errors import AutogradError, MissingRuleError
from oplib.library import custom_op

X, V = jnp.array([0.3, -0.7, 1.1]), jnp.array([1.0, 2.0, -1.0])

pytestmark = pytest.mark.spec("D.32")


def in_pallas(function: Callable[..., Any], *values: Any) -> Any:
    def kernel(*refs: Any) -> None:
        refs[-1][...] = function(*(ref[...] for ref in refs[:-1]))

    shape = jax.ShapeDtypeStruct(values[0].shape, values[0].dtype)
    return pl.pallas_call(kernel, out_shape=shape, interpret=True)(*values)


def clipped(x: Any, g: Any) -> Any:
    return jnp.clip(g, -0.5, 0.5) * jnp.cos(x)


def by_pallas(x: Any, g: Any) -> Any:
    return in_pallas(lambda a, b: a * jnp.cos(b), g, x)


KERNELS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "a nonlinear formula": (jnp.sin, clipped),
    "a formula of Pallas": (jnp.sin, by_pallas),
    "a kernel and a formula of Pallas": (lambda x: in_pallas(jnp.sin, x), by_pallas),
}
# How the op is registered.
FORMS = ["plain", "nonlinear", "forward", "compile", "vmap", "platforms"]


def make_op(form: str, kernel: Any, formula: Any) -> Any:
    def sine(x: jax.Array) -> jax.Array:
        return kernel(x)

    op = custom_op("outer::sine", sine, compile=form != "compile")

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return kernel(x)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    op.register_autograd(
        lambda ctx, g: formula(ctx.saved_tensors[0], g),
        **({"forward": forward} if form == "forward" else {"setup_context": save}),
        nonlinear=form == "nonlinear",
    )
    if form == "vmap":
        op.register_vmap(lambda info, dims, x: (jax.vmap(kernel)(jnp.moveaxis(x, dims[0], 0)), 0))
    if form == "platforms":
        op.register_kernel("tpu", lambda x: kernel(x))
    return op


def make_custom_vjp(kernel: Any, formula: Any) -> Any:
    sine = jax.custom_vjp(kernel)
    sine.defvjp(lambda x: (kernel(x), x), lambda x, g: (formula(x, g),))
    return sine


def square(f: Any) -> Any:
    return lambda x: (f(x) ** 2).sum()


RUNS: dict[str, Callable[[Any], Any]] = {
    "jvp of grad": lambda f: jax.jvp(jax.grad(square(f)), (X,), (V,)),
    "jit of it": lambda f: jax.jit(lambda x, v: jax.jvp(jax.grad(square(f)), (x,), (v,)))(X, V),
    "jvp of grad of jit": lambda f: jax.jvp(jax.grad(jax.jit(square(f))), (X,), (V,)),
    "jvp of vjp": lambda f: jax.jvp(lambda x, g: jax.vjp(f, x)[1](g)[0], (X, V), (V, X)),
    "of two calls": lambda f: jax.jvp(jax.grad(lambda x: square(f)(f(x))), (X,), (V,)),
    "of a checkpoint": lambda f: jax.jvp(jax.grad(jax.checkpoint(square(f))), (X,), (V,)),
    "of a scan": lambda f: jax.jvp(
        jax.grad(lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0].sum()), (X,), (V,)
    ),
    "mapped": lambda f: jax.vmap(lambda x: jax.jvp(jax.grad(square(f)), (x,), (V,)))(jnp.stack([X, V])),
    "of a mapped function": lambda f: jax.jvp(jax.grad(lambda x: square(jax.vmap(f))(x[None])), (X,), (V,)),
}
# JAX cannot map or linearize the derivative of a Pallas call in its interpreter.
MATRICES: dict[str, Callable[[Any], Any]] = {
    "linearize of grad": lambda f: jax.linearize(jax.grad(square(f)), X)[1](V),
    "hessian": lambda f: jax.hessian(square(f))(X),
    "jacfwd of grad": lambda f: jax.jit(jax.jacfwd(jax.grad(square(f))))(X),
    "third": lambda f: jax.jacfwd(jax.hessian(square(f)))(X),
    "reverse over forward over reverse": lambda f: jax.grad(
        lambda x: jax.jvp(jax.grad(square(f)), (x,), (V,))[1].sum()
    )(X),
}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_that_of_the_custom_vjp(kernel: str, form: str) -> None:
    op, control = make_op(form, *KERNELS[kernel]), make_custom_vjp(*KERNELS[kernel])
    for name, run in RUNS.items():
        found, expected = run(op), run(control)
        assert_equal(found, expected, name)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("form", FORMS)
def test_so_are_matrices_and_further_orders(form: str) -> None:
    op, control = make_op(form, jnp.sin, clipped), make_custom_vjp(jnp.sin, clipped)
    for name, run in MATRICES.items():
        assert_equal(run(op), run(control), name)


def assert_equal(found: Any, expected: Any, name: str) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_first_order_forward_mode_raises(kernel: str, form: str) -> None:
    op = make_op(form, *KERNELS[kernel])
    for run in (
        lambda: jax.jvp(op, (X,), (V,)),
        lambda: jax.jit(jax.jacfwd(op))(X),
        lambda: jax.jvp(jax.checkpoint(op), (X,), (V,)),
    ):
        with pytest.raises((AutogradError, MissingRuleError), match=r"outer::sine: (no|there is no) forward"):
            run()


def test_the_derivative_of_what_ran_has_the_rules_of_the_inner_formula_only() -> None:
    """Reverse over reverse mode uses the formula at both orders, forward over reverse at the inner one."""
    op = make_op("plain", jnp.sin, lambda x, g: 7 * jnp.clip(g, -0.5, 0.5) * jnp.cos(x))
    forward = jax.jvp(lambda x: jax.vjp(op, x)[0], (X,), (V,))[1]
    np.testing.assert_allclose(forward, V * jnp.cos(X), rtol=1e-6)
    reverse = jax.grad(lambda x: jax.vjp(op, x)[0].sum())(X)
    np.testing.assert_allclose(reverse, 7 * 0.5 * jnp.cos(X), rtol=1e-6)


def test_a_derivable_formula_is_used_by_the_outer_forward_mode() -> None:
    op = make_op("plain", jnp.sin, lambda x, g: 7 * g * jnp.cos(x))
    forward = jax.jvp(lambda x: jax.vjp(op, x)[0], (X,), (V,))[1]
    np.testing.assert_allclose(forward, 7 * V * jnp.cos(X), rtol=1e-6)


def test_a_host_kernel_raises_the_refusal() -> None:
    @custom_op("outer::host")
    def host(x: np.ndarray) -> np.ndarray:
        return np.sin(x)

    host.register_fake(lambda x: x)
    host.register_autograd(
        lambda ctx, g: clipped(ctx.saved_tensors[0], g),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    with pytest.raises(
        AutogradError, match=r"outer::host: no forward mode .* 'max' at \w+.py:\d+ is not shown"
    ):
        jax.hessian(square(host))(X)


def test_an_error_of_jax_in_a_derivative_is_not_about_the_arguments() -> None:
    inner = jax.custom_vjp(lambda x: 2 * x)
    inner.defvjp(lambda x: (2 * x, None), lambda _, g: (2 * g,))

    @custom_op("outer::derived", autograd="derive")
    def derived(x: jax.Array) -> jax.Array:
        return inner(x)

    @custom_op("outer::called", autograd="derive")
    def called(x: jax.Array) -> jax.Array:
        return jax.pure_callback(np.sin, x, x, vmap_method="sequential")

    for run in (
        lambda: jax.jvp(derived, (X,), (V,)),
        lambda: jax.hessian(square(called))(X),
        lambda: jax.grad(square(called))(X),
        lambda: jax.jit(jax.grad(square(called)))(X),
    ):
        with pytest.raises(Exception, match=r"custom_vjp|JVP") as caught:
            run()
        text = str(caught.value)
        assert not any(
            word in text for word in ("cannot use these", "_differentiate_call", "__rest", "__named")
        )


def test_an_error_about_missing_reverse_mode_names_the_op() -> None:
    """JAX says only that a linearization failed."""
    op = make_op("forward", lambda x: in_pallas(jnp.sin, x), lambda x, g: g * jnp.cos(x))
    for differentiate in (
        lambda: jax.grad(lambda x: jax.jvp(op, (x,), (V,))[1].sum())(X),
        lambda: jax.jacrev(jax.jacrev(square(op)))(X),
    ):
        with pytest.raises(
            AutogradError, match=r"outer::sine.*: JAX cannot differentiate .* in reverse mode"
        ):
            differentiate()
