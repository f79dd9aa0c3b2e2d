"""An op computes with the arguments of each call, whatever arguments its earlier calls had.

Each cell calls one op with several signatures, one after the other, and compares it with the plain function
under ``jax``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.library import custom_op
from oplib.tensor import Tensor
from tests.threads import run_in_thread

_numbers = count()


pytestmark = pytest.mark.usefixtures("forget_ops")


# The functions: one whose results have the shape of the argument, and two that have one shape for all -------


def turn(x: Any) -> Any:
    return x * jnp.asarray(2, x.dtype) + x[::-1]


def total(x: Any) -> Any:
    return jnp.sin(x).sum() * x.shape[0]


def last(x: Any) -> Any:
    return x[-1] * x[-1]


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def _make(kernel: Any, *, is_local: bool) -> Any:
    return custom_op(kernel) if is_local else custom_op(f"signatures::op{next(_numbers)}", kernel)


def _on_arrays(function: Any, *, is_local: bool) -> Any:
    def kernel(x: jax.Array) -> jax.Array:
        return function(x)

    return _make(kernel, is_local=is_local)


def _with_formula(function: Any, *, is_local: bool) -> Any:
    op = _on_arrays(function, is_local=is_local)
    op.register_autograd(
        lambda ctx, grad: jax.vjp(function, *ctx.saved_tensors)[1](grad)[0], setup_context=_save
    )
    return op


def make_derived(*, is_local: bool) -> Any:
    op = _on_arrays(turn, is_local=is_local)
    op.register_autograd("derive")
    return op


def make_batching(*, is_local: bool) -> Any:
    op = _with_formula(total, is_local=is_local)
    op.register_vmap(lambda info, dims, x: (jax.vmap(total, dims[0])(x), 0))
    return op


def make_jvp(*, is_local: bool) -> Any:
    op = _on_arrays(last, is_local=is_local)
    op.register_jvp(lambda primals, tangents: jax.jvp(last, primals, tangents))
    return op


def make_forward(*, is_local: bool) -> Any:
    op = _on_arrays(total, is_local=is_local)

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(jnp.cos(x))
        return total(x)

    def backward(ctx: Any, grad: Any) -> Any:
        (slope,) = ctx.saved_tensors
        return grad * slope * slope.shape[0]

    op.register_autograd(backward, forward=forward)
    return op


def make_host(*, is_local: bool) -> Any:
    def kernel(x: np.ndarray) -> np.ndarray:
        return np.asarray(np.sin(x).sum() * x.shape[0], x.dtype)

    op = _make(kernel, is_local=is_local)
    op.register_fake(lambda x: jax.ShapeDtypeStruct((), x.dtype))
    op.register_autograd(
        lambda ctx, grad: jax.vjp(total, *ctx.saved_tensors)[1](grad)[0], setup_context=_save
    )
    return op


def make_eager(*, is_local: bool) -> Any:
    def kernel(x: Tensor) -> Tensor:
        return oplib.sin(x).sum() * x.shape[0]

    op = _make(kernel, is_local=is_local)
    op.register_autograd(
        lambda ctx, grad: grad * oplib.cos(*ctx.saved_tensors) * ctx.saved_tensors[0].shape[0],
        setup_context=_save,
    )
    return op


KERNELS: dict[str, tuple[Callable[..., Any], Any]] = {
    "derived": (make_derived, turn),
    "formula": (lambda **own: _with_formula(turn, **own), turn),
    "formula of one number": (lambda **own: _with_formula(total, **own), total),
    "forward": (make_forward, total),
    "batching rule": (make_batching, total),
    "jvp rule": (make_jvp, last),
    "host": (make_host, total),
    "eager": (make_eager, total),
}


# The modes -------------------------------------------------------------------------------------------------


def _rows(x: Any) -> Any:
    return jnp.stack([x, x + 1])


def _square(f: Any) -> Any:
    return lambda x: (f(x) ** 2).sum()


def _linearize(f: Any, x: Any) -> Any:
    value, push = jax.linearize(f, x)
    return value, push(x)


def _pull(f: Any, x: Any) -> Any:
    value, pull = jax.vjp(f, x)
    return value, pull(jnp.ones_like(value))


def _evaluate_jaxpr(f: Any, x: Any) -> Any:
    closed = jax.make_jaxpr(jax.vmap(f))(_rows(x))
    return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, _rows(x))[0]


def _map_in_thread(f: Any, x: Any) -> Any:
    def run() -> Any:
        with jax.enable_x64(x.dtype == "float64"):  # a new thread begins with the settings of the process
            return jax.vmap(f)(_rows(x))

    return run_in_thread(run)


def _backward(f: Any, x: Any) -> Any:
    leaf = oplib.tensor(x, requires_grad=True)
    _square(f)(leaf).backward()
    assert leaf.grad is not None
    return leaf.grad.array


UNDER_JAX: dict[str, Any] = {
    "call": lambda f, x: f(x),
    "jit": lambda f, x: jax.jit(f)(x),
    "vmap": lambda f, x: jax.vmap(f)(_rows(x)),
    "vmap of vmap": lambda f, x: jax.vmap(jax.vmap(f))(jnp.stack([_rows(x)] * 3)),
    "grad": lambda f, x: jax.grad(_square(f))(x),
    "vmap of grad": lambda f, x: jax.vmap(jax.grad(_square(f)))(_rows(x)),
    "jvp of vmap": lambda f, x: jax.jvp(jax.vmap(f), (_rows(x),), (_rows(x),)),
    "vjp": _pull,
    "vjp of vmap": lambda f, x: _pull(jax.vmap(f), _rows(x)),
    "linearize": _linearize,
    "linearize of vmap": lambda f, x: _linearize(jax.vmap(f), _rows(x)),
    "checkpoint": lambda f, x: jax.grad(jax.checkpoint(_square(f)))(x),
    "checkpoint of vmap": lambda f, x: jax.grad(jax.checkpoint(_square(jax.vmap(f))))(_rows(x)),
    "hessian": lambda f, x: jax.hessian(_square(f))(x),
    "evaluated jaxpr": _evaluate_jaxpr,
    "another thread": _map_in_thread,
}
ON_TENSORS: dict[str, tuple[Any, str]] = {
    "oplib.vmap": (lambda f, x: oplib.vmap(f)(oplib.tensor(_rows(x))).array, "vmap"),
    "backward": (_backward, "grad"),
    "backward of oplib.vmap": (lambda f, x: _backward(oplib.vmap(f), _rows(x)), "vmap of grad"),
}
"""Each with the mode of JAX that computes the same."""

SLOW = {"hessian", "checkpoint of vmap"}
MODES = [
    pytest.param(mode, marks=[pytest.mark.slow] if mode in SLOW else []) for mode in (*UNDER_JAX, *ON_TENSORS)
]
SIGNATURES = ((2, "float32"), (4, "float32"), (3, "float64"), (2, "float32"))


@cache
def _reference(function: Any, mode: str, length: int, dtype: str) -> Any:
    with jax.enable_x64(dtype == "float64"):
        return UNDER_JAX[mode](function, jnp.arange(length, dtype=dtype) + 0.25)


@pytest.mark.matrix(8)
@pytest.mark.parametrize("is_local", [False, True], ids=["named", "local"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mode", MODES)
def test_each_call_computes_with_its_own_shapes_and_dtypes(mode: str, kernel: str, is_local: bool) -> None:
    make, function = KERNELS[kernel]
    run, under_jax = ON_TENSORS.get(mode) or (UNDER_JAX[mode], mode)
    op = make(is_local=is_local)
    for length, dtype in SIGNATURES:
        with jax.enable_x64(dtype == "float64"):
            given = run(op, jnp.arange(length, dtype=dtype) + 0.25)
        due = _reference(function, under_jax, length, dtype)
        assert jax.tree.map(jnp.shape, given) == jax.tree.map(jnp.shape, due)
        for one, other in zip(jax.tree.leaves(given), jax.tree.leaves(due), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == "float32" else 1e-12)


def test_a_kernel_is_traced_once_for_each_signature() -> None:
    traced: list[Any] = []

    @custom_op
    def double(x: jax.Array) -> jax.Array:
        traced.append(x.shape)
        return 2 * x

    for _ in range(3):
        for length in (2, 3):
            jax.vmap(double)(jnp.ones((2, length)))
    assert traced == [(2,), (3,)]
