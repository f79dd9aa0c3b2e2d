"""What a Tensor says of itself, concrete or traced."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import DimensionError
from oplib.tensor import Tensor, is_tensor, tensor, zeros


def test_shape_dtype_and_sizes_are_told() -> None:
    x = tensor(np.ones((2, 3, 4), np.float16))
    assert x.shape == x.size() == (2, 3, 4)
    assert x.size(0) == len(x) == 2
    assert x.size(-1) == 4
    assert x.ndim == x.dim() == 3
    assert x.numel() == x.nelement() == 24
    assert x.element_size() == x.itemsize == 2
    assert x.nbytes == 48


@pytest.mark.parametrize("dim", [2, -3])
def test_a_dimension_that_is_not_there_is_refused(dim: int) -> None:
    with pytest.raises(DimensionError, match=rf"dimension out of range\. Got dim={dim} for shape \(2, 3\)"):
        zeros(2, 3).size(dim)


def test_a_tensor_without_dimensions_has_no_length() -> None:
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(tensor(1.0))


@pytest.mark.parametrize(
    ("dtype", "floating", "is_complex"),
    [("float32", True, False), ("bfloat16", True, False), ("int8", False, False), ("complex64", False, True)],
)
def test_kinds_of_dtypes_are_told(dtype: str, floating: bool, is_complex: bool) -> None:
    x = zeros(1, dtype=dtype)
    assert (x.is_floating_point(), x.is_complex()) == (floating, is_complex)


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "int8", "int32", "uint8", "bool"])
def test_signs_sizes_and_the_index_of_the_device_are_those_of_torch(dtype: str) -> None:
    found = []
    for lib in (pytest.importorskip("torch"), oplib):
        x = lib.zeros((2, 2), dtype=getattr(lib, dtype))
        others = (x, x.detach(), x[:], x.t(), x.t().t(), x[0], x.clone(), x.view(4), x.reshape(4))
        found.append([
            (x.is_signed(), lib.is_signed(x), x.get_device()),
            [(x.is_set_to(other), x.is_same_size(other)) for other in others],
        ])  # fmt: skip
    assert found[0] == found[1]


def test_only_a_tensor_is_one() -> None:
    assert is_tensor(zeros(1))
    assert not is_tensor(zeros(1).array)


def test_metadata_can_be_read_under_a_trace() -> None:
    def check(array: jax.Array) -> jax.Array:
        x = Tensor.from_array(array)
        assert (x.shape, x.dtype, x.ndim, x.numel(), x.nbytes, len(x)) == ((3, 2), "float32", 2, 6, 24, 3)
        return array

    jax.jit(check)(np.zeros((3, 2), np.float32))


def test_the_sharding_of_a_tracer_is_abstract() -> None:
    found = []
    jax.jit(lambda a: (found.append(Tensor.from_array(a).sharding), a)[1])(1.0)
    assert isinstance(found[0].mesh, jax.sharding.AbstractMesh)
