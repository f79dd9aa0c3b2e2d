"""On arrays, results and derivatives have the weak types of the same function without the op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.library import custom_op

HALVES = jnp.ones(2, jnp.bfloat16)

pytestmark = pytest.mark.spec("D.43")


def kernel(x: Any) -> Any:
    return x * x


def push(p: Any, t: Any) -> Any:
    return p[0] * p[0], 3 * p[0] * t[0]


by_jvp = jax.custom_jvp(kernel)
by_jvp.defjvp(push)
by_vjp = jax.custom_vjp(kernel)
by_vjp.defvjp(lambda x: (kernel(x), x), lambda x, grad: (grad * 3 * x,))


def save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def make(rules: str) -> Any:
    @custom_op("weak::square", compile=rules != "plain formula")
    def square(x: jax.Array) -> jax.Array:
        return x * x

    if rules == "jvp":
        square.register_jvp(push)
    elif rules == "derive":
        square.register_autograd("derive")
    else:
        square.register_autograd(lambda ctx, grad: grad * 3 * ctx.saved_tensors[0], setup_context=save)
    if rules == "batching":
        square.register_vmap(lambda info, dims, x: (x * x, dims[0]))
    return square


RULES: dict[str, Any] = {
    "formula": by_vjp,
    "plain formula": by_vjp,
    "batching": by_vjp,
    "jvp": by_jvp,
    "derive": kernel,
}
RUNS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda f: f(2.0),
    "a whole number": lambda f: f(2),
    "a strong array": lambda f: f(jnp.ones(2)),
    "a number in jit": lambda f: jax.jit(f)(2.0),
    "a mapped number": lambda f: jax.vmap(f)(jnp.asarray(2.0) * jnp.ones(3, int)),
    "a number in a map": lambda f: jax.vmap(f, axis_size=3, in_axes=None)(2.0),
    "value": lambda f: jax.value_and_grad(f)(2.0)[0],
    "grad": lambda f: jax.grad(f)(2.0),
    "grad in jit": lambda f: jax.jit(jax.grad(f))(2.0),
    "second grad": lambda f: jax.grad(jax.grad(f))(2.0),
    "grad of a strong array": lambda f: jax.grad(lambda x: f(x).sum())(jnp.ones(2)),
    "a product with halves": lambda f: HALVES * f(2.0),
    "a product of a gradient with halves": lambda f: HALVES * jax.grad(f)(2.0),
}
FORWARD: dict[str, Callable[[Any], Any]] = {
    "results": lambda f: jax.jvp(f, (2.0,), (1.0,))[0],
    "tangents": lambda f: jax.jvp(f, (2.0,), (1.0,))[1],
    "tangents in jit": lambda f: jax.jit(lambda x: jax.jvp(f, (x,), (x,))[1])(2.0),
}


@pytest.mark.parametrize("rules", RULES)
def test_weak_types_are_those_of_the_function(rules: str) -> None:
    op, function = make(rules), RULES[rules]
    runs = RUNS if function is by_vjp else RUNS | FORWARD
    for name, run in runs.items():
        found, due = run(op), run(function)
        types = [(jax.typeof(value).dtype, jax.typeof(value).weak_type) for value in (found, due)]
        assert types[0] == types[1], name
        np.testing.assert_allclose(found, due, err_msg=name)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_tensor_is_never_weak(compiled: bool) -> None:
    @custom_op("weak::two", compile=compiled, operand=("scale",))
    def two(x: jax.Array, w: jax.Array, scale: float) -> tuple[jax.Array, jax.Array, jax.Array]:
        return x * w * scale, w * 2, jnp.asarray(scale) * 1

    two.register_autograd(lambda ctx, a, b, c: (a, b, None))
    weak = jnp.asarray(2.0)
    assert weak.weak_type
    for needs_grad in (False, True, True):
        x = oplib.ones(2, requires_grad=needs_grad)
        runs = (two, oplib.jit(lambda x, w, scale: two(x, w, scale))) if not needs_grad else (two,)
        for run in runs:
            assert not any(result.array.weak_type for result in run(x, weak, 0.5))
    assert two(oplib.ones(2, dtype=oplib.bfloat16), oplib.ones(2, dtype=oplib.bfloat16), 0.5)[0].dtype == (
        oplib.bfloat16
    )
