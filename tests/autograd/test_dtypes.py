"""The dtypes that are differentiated. No history is cut without an error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import AutogradError, DtypeError

NARROW = ["float16", "bfloat16", "float32", "complex64"]
WIDE = ["float64", "complex128"]


@pytest.mark.spec("001.1")
@pytest.mark.parametrize("dtype", NARROW + WIDE)
def test_floating_and_complex_dtypes_are_differentiated(dtype):
    with jax.enable_x64(dtype in WIDE):
        x = oplib.tensor([1.0, 2.0], dtype=getattr(oplib, dtype), requires_grad=True)
        (x * x).backward(oplib.ones_like(x))
        assert x.grad.dtype == x.dtype
        assert x.grad.to(oplib.complex64).tolist() == [2.0, 4.0]


@pytest.mark.spec("001.1")
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_other_dtypes_have_no_gradient(dtype):
    x = oplib.tensor([1, 0], dtype=getattr(oplib, dtype))
    with pytest.raises(AutogradError, match="only floating and complex tensors have gradients"):
        x.requires_grad_()
    assert not x.requires_grad


@pytest.mark.spec("001.1", "D.19")
@pytest.mark.parametrize("dtype", [*WIDE, "int64"])
def test_64_bits_are_refused_while_x64_is_off(dtype):
    with pytest.raises(DtypeError, match=rf"{dtype} was asked for while JAX's x64 is off.*jax_enable_x64"):
        oplib.zeros(2, dtype=getattr(oplib, dtype))
    with pytest.raises(DtypeError, match="x64"):
        oplib.tensor([1.0]).to(getattr(oplib, dtype))


@pytest.mark.spec("D.19")
def test_numpys_float64_is_not_cut():
    with pytest.raises(DtypeError, match="float64"):
        oplib.tensor(np.ones(2))
    assert oplib.tensor(np.ones(2), dtype=oplib.float32).dtype == jnp.float32


@pytest.mark.spec("D.19")
def test_python_numbers_get_the_defaults_and_integers_are_checked():
    assert oplib.tensor(1.5).dtype == jnp.float32
    assert oplib.tensor(3).dtype == jnp.int32
    with pytest.raises(DtypeError, match=r"2147483648|range|x64"):
        oplib.tensor(2**31)
    with jax.enable_x64(True):
        assert oplib.tensor(2**31).dtype == jnp.int64


@pytest.mark.spec("D.19")
def test_a_gradient_of_64_bits_is_converted_to_its_tensors_dtype():
    with jax.enable_x64(True):
        x = oplib.tensor([1.0], dtype=oplib.float32, requires_grad=True)
        (x * 2).backward(oplib.ones(1, dtype=oplib.float64))
        assert x.grad.dtype == jnp.float32


def test_a_part_at_a_place_is_read_and_written_in_double_precision():
    with jax.enable_x64(True):
        x = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=oplib.float64, requires_grad=True)
        base = x * 1.0
        row = base[1]
        assert row.tolist() == [3.0, 4.0]
        row.mul_(5.0)
        base[0, 1] = row[0]
        assert base.tolist() == [[1.0, 15.0], [15.0, 20.0]]
        base.sum().backward()
        assert x.grad.tolist() == [[1.0, 0.0], [10.0, 5.0]]
