"""A kernel may make Refs of its own: nothing outside of it notices them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import AutogradError, MissingRuleError, ResultError, TracingError
from oplib.library import custom_op
from oplib.tensor import Tensor

pytestmark = [pytest.mark.usefixtures("forget_ops"), pytest.mark.spec("D.57")]

ROW = jnp.array([0.5, 1.0, -2.0])
ROWS = jnp.stack([ROW, ROW + 1])


def compute(x: Any) -> Any:
    return 2 * x + jnp.sin(x)


def write(x: Any) -> Any:
    """Computes the same with a Ref."""
    ref = jax.new_ref(jnp.zeros_like(x))
    ref[...] = 2 * x
    ref[...] += jnp.sin(x)
    return jax.freeze(ref)


def _on_arrays(x: jax.Array) -> jax.Array:
    return write(x)


def _on_tensors(x: Tensor) -> Tensor:
    return Tensor.from_array(write(x.array))


def _with_formula(op: Any, cos: Any = jnp.cos) -> Any:
    op.register_autograd(
        lambda ctx, grad: grad * (2 + cos(ctx.saved_tensors[0])),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return op


def make_derived() -> Any:
    op = custom_op("refs::derived", _on_arrays)
    op.register_autograd("derive")
    return op


def make_jvp() -> Any:
    op = custom_op("refs::jvp", _on_arrays)
    op.register_jvp(lambda primals, tangents: (write(*primals), tangents[0] * (2 + jnp.cos(primals[0]))))
    return op


def make_batching() -> Any:
    op = _with_formula(custom_op("refs::batching", _on_arrays))
    op.register_vmap(lambda info, dims, x: (jax.vmap(write, dims)(x), 0))
    return op


def make_two_kernels() -> Any:
    op = _with_formula(custom_op("refs::two", _on_arrays))
    op.register_kernel("cuda")(_on_arrays)
    return op


def make_two_derived() -> Any:
    op = make_derived()
    op.register_kernel("cuda")(_on_arrays)
    return op


OPS: dict[str, Any] = {
    "derived": make_derived,
    "two derived": make_two_derived,
    "derived plain": lambda: custom_op("refs::plain", _on_arrays, autograd="derive", compile=False),
    "derived eager": lambda: custom_op("refs::derived_eager", _on_tensors, autograd="derive"),
    "formula": lambda: _with_formula(custom_op("refs::formula", _on_arrays)),
    "local": lambda: _with_formula(custom_op(_on_arrays)),
    "jvp rule": make_jvp,
    "batching rule": make_batching,
    "two kernels": make_two_kernels,
    "eager": lambda: _with_formula(custom_op("refs::eager", _on_tensors), oplib.cos),
}


def _backward(f: Any) -> Any:
    x = oplib.tensor(ROW, requires_grad=True)
    f(x).sum().backward()
    assert x.grad is not None
    return x.grad.array


UNDER_JAX: dict[str, Any] = {
    "call": lambda f: f(ROW),
    "jit": lambda f: jax.jit(f)(ROW),
    "vmap": lambda f: jax.vmap(f)(ROWS),
    "jit of vmap": lambda f: jax.jit(jax.vmap(f))(ROWS),
    "map": lambda f: jax.lax.map(f, ROWS),
    "grad": lambda f: jax.grad(lambda x: f(x).sum())(ROW),
    "vmap of grad": lambda f: jax.vmap(jax.grad(lambda x: f(x).sum()))(ROWS),
    "jvp": lambda f: jax.jvp(f, (ROW,), (ROW,)),
    "linearize": lambda f: jax.linearize(f, ROW)[1](ROW),
}
ON_TENSORS: dict[str, Any] = {
    "call": lambda f: f(oplib.tensor(ROW)).array,
    "vmap": lambda f: oplib.vmap(f)(oplib.tensor(ROWS)).array,
    "grad": _backward,
    "jit": lambda f: oplib.jit(lambda x: f(x))(oplib.tensor(ROW)).array,
}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("mode", UNDER_JAX)
def test_it_computes_what_a_kernel_without_refs_does(mode: str, kind: str) -> None:
    given, due = UNDER_JAX[mode](OPS[kind]()), UNDER_JAX[mode](compute)
    for one, other in zip(jax.tree.leaves(given), jax.tree.leaves(due), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("mode", ON_TENSORS)
def test_it_computes_the_same_on_tensors(mode: str, kind: str) -> None:
    np.testing.assert_allclose(ON_TENSORS[mode](OPS[kind]()), UNDER_JAX[mode](compute), rtol=1e-5)


@pytest.mark.parametrize("mode", ["grad", "jvp", "linearize"])
def test_jax_does_not_differentiate_it_beside_rules(mode: str) -> None:
    op = make_derived()
    op.register_vmap(lambda info, dims, x: (jax.vmap(write, dims)(x), 0))
    with pytest.raises(MissingRuleError, match="JAX cannot differentiate a kernel that makes Refs"):
        UNDER_JAX[mode](op)


OUTER = jax.new_ref(ROW)


def _with_outer(x: jax.Array) -> jax.Array:
    return x * OUTER[...]


def test_a_Ref_from_outside_is_refused_with_a_cure() -> None:
    op = custom_op("refs::outer", _with_outer)
    for call in (
        lambda: op(ROW),
        lambda: jax.jit(op)(ROW),
        lambda: op(Tensor.from_array(ROW)),
        lambda: oplib.jit(op)(Tensor.from_array(ROW)),
    ):
        with pytest.raises(TracingError, match=r"a Ref that was made outside .* Make the Ref in the kernel"):
            call()


def test_a_derived_kernel_may_use_a_Ref_from_outside() -> None:
    op = custom_op("refs::outer_derived", _with_outer, autograd="derive")
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: op(x).sum()))(ROW), ROW)


def test_a_Ref_as_a_result_is_refused() -> None:
    def make(x: jax.Array) -> Any:
        return jax.new_ref(x)

    op = custom_op("refs::result", make)
    for call in (op, jax.jit(op)):
        with pytest.raises(ResultError, match=r"returned a Ref.*Return jax.freeze\(ref\)"):
            call(ROW)


def make_cube(name: str, write: Any) -> Any:
    """Makes ``x ** 3``, whose formula computes the slope times the cotangent in a Ref."""

    @custom_op(name)
    def cube(x: jax.Array) -> jax.Array:
        return x * x * x

    def backward(ctx: Any, g: jax.Array) -> jax.Array:
        ref = jax.new_ref(jnp.zeros_like(g))
        write(ref, 3 * ctx.saved_tensors[0] ** 2 * g)
        return ref[...]

    cube.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    return cube


def swap(ref: Any, value: Any) -> None:
    ref[...] = value


def add(ref: Any, value: Any) -> None:
    ref[...] += value


def write_in_jit(ref: Any, value: Any) -> None:
    jax.jit(swap)(ref, value)


def write_in_loop(ref: Any, value: Any) -> None:
    def step(index: Any, carry: Any) -> Any:
        ref[index] = value[index]
        return carry

    jax.lax.fori_loop(0, value.shape[0], step, 0)


@pytest.mark.parametrize("write", [swap, add, write_in_jit, write_in_loop])
def test_second_derivatives_go_through_a_Ref_of_a_formula(write: Any) -> None:
    """They were zero on the tape, without a word."""
    x = jnp.array([0.5, 1.0, -2.0])
    cube = make_cube(f"refs::cube_{write.__name__}", write)
    expected = np.diag(6 * np.asarray(x))
    np.testing.assert_allclose(jax.jacrev(jax.jacrev(lambda x: cube(x).sum()))(x), expected, rtol=1e-6)
    tensor = Tensor.from_array(x)
    hessian = oplib.autograd.functional.hessian(lambda x: cube(x).sum(), tensor)
    np.testing.assert_allclose(hessian.numpy(), expected, rtol=1e-6)
    leaf = Tensor.from_array(x).requires_grad_()
    (slope,) = oplib.autograd.grad(cube(leaf).sum(), leaf, create_graph=True)
    slope.sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 6 * x, rtol=1e-6)


@pytest.mark.parametrize("write", [swap, add])
def test_a_formula_that_writes_a_Ref_has_no_derived_forward_mode_and_says_why(write: Any) -> None:
    cube = make_cube(f"refs::forward_{write.__name__}", write)
    x = jnp.ones(2)
    text = (
        r"'swap' at test_own_refs\.py:\d+ writes a jax\.Ref, and is not shown to be linear\. Register a rule"
    )
    with pytest.raises(AutogradError, match=text) as told:
        jax.jvp(cube, (x,), (x,))
    assert len(str(told.value)) <= 400
