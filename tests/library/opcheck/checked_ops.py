"""Ops for opcheck to check, and rules that are wrong."""

from __future__ import annotations

import itertools
import traceback

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import OpCheckError, OplibError
from oplib.library import Library, custom_op, opcheck, ops

_numbers = itertools.count()


def save_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def square_formula(ctx, g):
    return g * 2 * ctx.saved_tensors[0]


def wrong_formula(ctx, g):
    return g * 3 * ctx.saved_tensors[0]


def kernel_on_arrays(x: jax.Array) -> jax.Array:
    return x * x


def kernel_on_host(x: np.ndarray) -> np.ndarray:
    return x * x


def kernel_on_tensors(x: oplib.Tensor) -> oplib.Tensor:
    return x * x


def same_shape(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


KERNELS = {"array": kernel_on_arrays, "host": kernel_on_host, "tensor": kernel_on_tensors}


def make_op(kernel=kernel_on_arrays, formula=square_formula, setup=save_inputs, **options):
    op = custom_op(f"opcheck_test::op{next(_numbers)}", kernel, **options)
    if formula is not None:
        op.register_autograd(formula, setup_context=setup)
    return op


def define_op(schema, kernel, key="CompositeExplicitAutograd"):
    library = Library("opcheck_test", "FRAGMENT")
    name = f"low{next(_numbers)}"
    library.define(name + schema)
    library.impl(name, kernel, key)
    return library, getattr(ops.opcheck_test, name).default


def assert_fails(op, args, test, kind, text):
    """Asserts that exactly this test fails, with this error."""
    with pytest.raises(OpCheckError, match=f"(?s){test} failed with .*{text}") as caught:
        opcheck(op, args, test_utils=test)
    assert isinstance(caught.value.failure, kind)
    told = "".join(traceback.format_exception(caught.value))
    assert told.count(str(caught.value.failure).splitlines()[0]) == 1 or not issubclass(kind, OplibError)
