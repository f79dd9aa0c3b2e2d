"""opcheck finds kernels, fake kernels and formulas that break their registration."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import (
    AutogradError,
    MissingRuleError,
    OpMismatchError,
    TracingError,
)
from oplib.library import opcheck
from tests.autograd.functions import Square

from .checked_ops import (
    KERNELS,
    assert_fails,
    define_op,
    kernel_on_arrays,
    kernel_on_host,
    kernel_on_tensors,
    make_op,
    same_shape,
)

# test_schema ----------------------------------------------------------------------------------------------


def test_an_undeclared_write_is_caught(x):
    op = make_op(lambda x: x.add_(1).clone(), None, schema="(Tensor x) -> Tensor")
    assert_fails(op, (x.detach(),), "test_schema", AutogradError, "not defined as mutable but was mutated")


def test_a_returned_argument_is_caught(x):
    op = make_op(lambda x: x, None, schema="(Tensor x) -> Tensor")
    assert_fails(op, (x.detach(),), "test_schema", RuntimeError, "may not alias any inputs")


def test_a_result_that_shares_memory_is_caught(x):
    library, op = define_op("(Tensor x) -> Tensor", lambda x: x.detach())
    assert_fails(op, (x.detach(),), "test_schema", RuntimeError, "alias")
    library._destroy()


@pytest.mark.spec("D.50")
def test_a_result_that_is_a_view_is_caught(x):
    op = make_op(lambda x: x[:1], None, schema="(Tensor x) -> Tensor")
    assert_fails(op, (x.detach(),), "test_schema", RuntimeError, "may not alias any inputs")


@pytest.mark.spec("D.50")
def test_a_write_through_data_is_caught(x):
    def write(x: oplib.Tensor) -> oplib.Tensor:
        x.data.mul_(2)
        return x.clone()

    op = make_op(write, None, schema="(Tensor x) -> Tensor")
    assert_fails(op, (x.detach(),), "test_schema", AutogradError, "not defined as mutable but was mutated")


def test_a_declared_write_that_does_not_happen_passes(x):
    op = make_op(lambda x: None, None, schema="(Tensor(a!) x) -> ()", mutates_args=("x",))
    assert opcheck(op, (x.detach(),), test_utils="test_schema")


# test_autograd_registration -------------------------------------------------------------------------------


def test_a_function_hidden_in_a_kernel_is_caught(x):
    library, op = define_op("(Tensor x) -> Tensor", lambda x: Square.apply(x * 1) * 1)
    text = "the kernel applies the autograd.Function SquareBackward"
    assert_fails(op, (x,), "test_autograd_registration", OpMismatchError, text)
    assert opcheck(op, (x.detach(),), test_utils="test_autograd_registration")
    library._destroy()


def test_a_function_in_a_composite_kernel_passes(x):
    library, op = define_op("(Tensor x) -> Tensor", Square.apply, "")
    assert opcheck(op, (x,), test_utils=("test_autograd_registration", "test_gradients"))
    library._destroy()


# test_faketensor ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fake", "text"),
    [
        (lambda x: jax.ShapeDtypeStruct((3,), x.dtype), r"Shapes \(3,\) and \(2,\) are not equal"),
        (lambda x: jax.ShapeDtypeStruct((2,), jnp.int32), "Dtypes int32 and float32 are not equal"),
    ],
)
@pytest.mark.parametrize("kind", ["host", "tensor"])
def test_a_wrong_fake_kernel_is_caught(x, kind, fake, text):
    op = make_op(KERNELS[kind], None)
    op.register_fake(fake)
    assert_fails(op, (x.detach(),), "test_faketensor", OpMismatchError, text)


def test_a_fake_kernel_with_other_lengths_or_numbers_is_caught(x):
    def numbers(x: np.ndarray) -> tuple[np.ndarray, int]:
        return x * 1, 3

    op = make_op(numbers, None)
    op.register_fake(lambda x: (same_shape(x), 4))
    assert_fails(op, (x.detach(),), "test_faketensor", OpMismatchError, "4 and 3 are not equal")

    def parts(x: np.ndarray) -> list[np.ndarray]:
        return [x * 1, x * 2]

    op = make_op(parts, None)
    op.register_fake(lambda x: [same_shape(x)])
    assert_fails(
        op,
        (x.detach(),),
        "test_faketensor",
        OpMismatchError,
        "The fake kernel returns 1 values, the kernel 2",
    )


def test_a_fake_kernel_that_is_missing_fails_where_it_is_needed(x):
    assert_fails(
        make_op(kernel_on_host, None), (x.detach(),), "test_faketensor", MissingRuleError, "register_fake"
    )
    assert opcheck(make_op(kernel_on_arrays, None), (x.detach(),), test_utils="test_faketensor")


# test_aot_dispatch_dynamic --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KERNELS))
def test_a_kernel_with_a_state_is_caught(x, kind):
    count = itertools.count(1)

    def on_arrays(x: jax.Array) -> jax.Array:
        return x * next(count)

    def on_host(x: np.ndarray) -> np.ndarray:
        return x * np.float32(next(count))

    def on_tensors(x: oplib.Tensor) -> oplib.Tensor:
        return x * next(count)

    op = make_op({"array": on_arrays, "host": on_host, "tensor": on_tensors}[kind], None)
    op.register_fake(same_shape)
    assert_fails(op, (x.detach(),), "test_aot_dispatch_dynamic", OpMismatchError, "the outputs are different")


def test_a_missing_formula_is_caught_where_something_requires_grad(x):
    op = make_op(formula=None)
    assert_fails(op, (x,), "test_aot_dispatch_dynamic", RuntimeError, "formula")
    assert opcheck(op, (x.detach(),), test_utils="test_aot_dispatch_dynamic")
    assert opcheck(op, (jnp.ones(2),), test_utils="test_aot_dispatch_dynamic")


def test_a_formula_that_needs_values_is_caught(x):
    def formula(ctx, g):
        return g * float(ctx.saved_tensors[0].sum())

    op = make_op(kernel_on_tensors, formula)
    op.register_fake(same_shape)
    assert_fails(op, (x,), "test_aot_dispatch_dynamic", TracingError, "a traced tensor has no values yet")


def test_a_formula_that_is_another_one_under_a_trace_is_caught(x):
    def formula(ctx, g):
        factor = 3 if isinstance(g.array, jax.core.Tracer) else 2
        return g * factor * ctx.saved_tensors[0]

    op = make_op(kernel_on_tensors, formula)
    op.register_fake(same_shape)
    assert_fails(
        op, (x,), "test_aot_dispatch_dynamic", OpMismatchError, "the gradients are different in eager mode"
    )


def test_a_small_write_through_data_that_is_not_declared_is_found(x):
    def nudge(x: oplib.Tensor) -> oplib.Tensor:
        x.data.add_(1e-3)
        return x * 2

    op = make_op(nudge)
    assert_fails(op, (x.detach(),), "test_schema", AutogradError, "not defined as mutable but was mutated")
