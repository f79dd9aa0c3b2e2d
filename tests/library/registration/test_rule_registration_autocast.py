"""``register_autocast``: which arguments are cast, and when the registration ends."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import ArgumentValueError, DtypeError
from oplib.library import Library, custom_op, register_autocast

SEEN: list[str] = []


def scale(x: jax.Array, more: list[jax.Array], by: float) -> jax.Array:
    SEEN[:] = [str(x.dtype), *[str(one.dtype) for one in more]]
    return x * by


def make_op():
    return custom_op("testing::scale", scale, autograd="derive")


def test_floating_arrays_and_lists_are_cast_and_others_stay():
    op = make_op()
    op.register_autocast("cpu", oplib.float16)
    with oplib.autocast("cpu"):
        result = op(jnp.ones(2), [jnp.ones(2, "bfloat16"), jnp.arange(2)], 2.0)
    assert SEEN == ["float16", "float16", "int32"]
    assert result.dtype == "float16"


def test_the_gradient_has_the_dtype_of_the_argument():
    op = make_op()
    op.register_autocast("cpu", oplib.bfloat16)
    x = oplib.ones(2).requires_grad_()
    with oplib.autocast("cpu"):
        y = op(x, [], 3.0)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype, x.grad.tolist()) == ("bfloat16", "float32", [3.0, 3.0])


def test_a_registration_ends_with_its_library():
    op = make_op()
    lib = Library("testing", "FRAGMENT")
    register_autocast("testing::scale", "cpu", oplib.float16, lib=lib)
    with oplib.autocast("cpu"):
        assert op(jnp.ones(2), [], 2.0).dtype == "float16"
        lib._destroy()
        assert op(jnp.ones(2), [], 2.0).dtype == "float32"


def test_the_last_registration_of_a_device_type_counts():
    op = make_op()
    for dtype in (oplib.float16, oplib.bfloat16):
        op.register_autocast("cpu", dtype)
    op.register_autocast("cuda", oplib.float16)
    with oplib.autocast("cpu"):
        assert op(jnp.ones(2), [], 2.0).dtype == "bfloat16"


def test_autocast_applies_to_the_ops_of_a_kernel_without_a_registration():
    def product(x: oplib.Tensor) -> oplib.Tensor:
        return x @ x

    op = custom_op("testing::product", product)
    with oplib.autocast("cpu"):
        assert op(oplib.ones(2, 2)).dtype == "bfloat16"
        op.register_autocast("cpu", oplib.float32)
        assert op(oplib.ones(2, 2)).dtype == "float32"


def test_bad_arguments_are_refused():
    op = make_op()
    with pytest.raises(ArgumentValueError, match="register_autocast: device type 'xpu' does not support"):
        op.register_autocast("xpu", oplib.float16)
    with pytest.raises(DtypeError, match="no tensor has this dtype"):
        op.register_autocast("cpu", "half-ish")
