"""A compiled rule may read neither values nor Tensors from outside; one that runs as Python may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Function
from oplib.errors import TracingError
from oplib.library import CustomOpDef, custom_op

POINT = [1.0, 2.0]
PARTS = ("jvp rule", "forward", "setup_context", "backward formula")
OUTSIDE = oplib.tensor(3.0)
READS: dict[str, Callable[[Any], Any]] = {
    "needs the concrete value": lambda x: x.sum() and float(x.sum()) - float(x.sum()) + 3.0,
    "reads a Tensor from outside": lambda x: OUTSIDE * 1,
}


def make(part: str, read: Callable[[Any], Any], *, compiled: bool) -> CustomOpDef:
    """Registers the square with derivative 3x: ``read`` gives the 3 in one part."""

    def find(here: str, x: Any) -> Any:
        return read(x) if here == part else 3.0

    def forward(ctx: Any, x: Any) -> Any:
        find("forward", x)
        ctx.save_for_backward(x)
        return x * x

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        find("setup_context", inputs[0])
        ctx.save_for_backward(inputs[0])

    op = custom_op("frozen::square", lambda x: x * x, schema="(Tensor x) -> Tensor", compile=compiled)
    if part == "jvp rule":
        op.register_jvp(lambda p, t: (p[0] * p[0], p[0] * t[0] * find(part, p[0])))
        return op
    ways: dict[str, Any] = {"forward": forward} if part == "forward" else {"setup_context": setup}
    op.register_autograd(lambda ctx, g: ctx.saved_tensors[0] * g * find("backward formula", g), **ways)
    return op


def pull(op: CustomOpDef) -> Any:
    x = oplib.tensor(POINT, requires_grad=True)
    op(x).sum().backward()
    assert x.grad is not None
    return x.grad.numpy()


@pytest.mark.parametrize("told", READS)
@pytest.mark.parametrize("part", PARTS)
def test_a_compiled_rule_is_refused_what_would_be_frozen(part: str, told: str) -> None:
    for run in (pull, lambda op: jax.jit(jax.grad(lambda x: op(x).sum()))(jnp.array(POINT))):
        with pytest.raises(TracingError, match=f"^frozen::square: the {part} {told}"):
            run(make(part, READS[told], compiled=True))


@pytest.mark.parametrize("told", READS)
@pytest.mark.parametrize("part", PARTS)
def test_a_rule_that_runs_as_python_reads_both(part: str, told: str) -> None:
    np.testing.assert_allclose(pull(make(part, READS[told], compiled=False)), [3.0, 6.0])


@pytest.mark.parametrize("part", PARTS)
def test_a_rule_on_tensors_reads_a_tensor_from_outside_in_each_trace(part: str) -> None:
    op = make(part, READS["reads a Tensor from outside"], compiled=False)
    run = jax.jit(jax.grad(lambda x: op(x).sum()))
    np.testing.assert_allclose(run(jnp.array(POINT)), [3.0, 6.0])


def test_a_compiled_formula_that_jax_runs_on_concrete_arrays_reads_both() -> None:
    for read in READS.values():
        op = make("backward formula", read, compiled=True)
        found = jax.grad(lambda x, op=op: op(x).sum())(jnp.array(POINT))
        np.testing.assert_allclose(found, [3.0, 6.0])


class Square(Function):
    """The square with derivative 3x, whose every part reads a Tensor from outside."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x * (OUTSIDE / 3)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.saved_tensors[0] * g * (OUTSIDE * 1)

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return ctx.saved_tensors[0] * t * (OUTSIDE * 1)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_a_function_reads_a_tensor_from_outside_in_each_trace(transform: Callable[..., Any]) -> None:
    x = jnp.array(POINT)
    np.testing.assert_allclose(transform(jax.grad(lambda x: Square.apply(x).sum()))(x), [3.0, 6.0])
    value, tangent = transform(lambda x: jax.jvp(Square.apply, (x,), (x,)))(x)
    np.testing.assert_allclose(value, [1.0, 4.0])
    np.testing.assert_allclose(tangent, [3.0, 12.0])
