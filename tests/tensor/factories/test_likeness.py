"""Tensors like another."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from oplib.tensor import (
    Tensor,
    empty_like,
    full_like,
    ones_like,
    rand_like,
    randint_like,
    randn_like,
    tensor,
    zeros,
    zeros_like,
)
from oplib.tensor.dtypes import names as dtypes

SOURCE = np.arange(6, dtype=np.float16).reshape(2, 3)


def test_the_like_have_shape_and_dtype_of_the_other_but_not_its_flag() -> None:
    source = tensor(SOURCE, requires_grad=True)
    for make in (zeros_like, ones_like, empty_like, rand_like, randn_like):
        made = make(source)
        assert (made.shape, made.dtype, made.requires_grad) == ((2, 3), dtypes.float16, False)
    assert ones_like(source).tolist() == [[1.0] * 3] * 2
    assert full_like(source, 2.5).tolist() == [[2.5] * 3] * 2


def test_dtype_and_flag_can_be_given() -> None:
    source = tensor([1, 2])
    made = zeros_like(source, dtype=dtypes.float32, requires_grad=True)
    assert (made.dtype, made.requires_grad) == (dtypes.float32, True)
    assert randint_like(tensor([1.0, 2.0]), 3, 4).tolist() == [3.0, 3.0]


def test_the_like_of_what_is_bound_to_no_device_are_bound_to_none() -> None:
    source = tensor([1.0, 2.0])
    for make in (zeros_like, ones_like, empty_like, rand_like, randn_like):
        assert not make(source).array.committed


@pytest.mark.devices(2)
def test_the_like_stay_where_the_other_is() -> None:
    second = jax.devices()[1]
    assert ones_like(zeros(2, device=second)).array.devices() == {second}
    assert rand_like(zeros(2, device=second), device=jax.devices()[0]).array.devices() == {jax.devices()[0]}


@pytest.mark.devices(8)
@pytest.mark.parametrize("length", [8, 8000])
def test_the_like_of_a_sharded_tensor_are_sharded_alike(length: int) -> None:
    for kind in jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit:
        sharding = NamedSharding(jax.make_mesh((8,), ("x",), axis_types=(kind,)), PartitionSpec("x"))
        source = Tensor.from_array(jax.device_put(jnp.ones(length), sharding))
        for made in (zeros_like(source), rand_like(source), full_like(source, 2.5)):
            assert made.sharding.is_equivalent_to(sharding, 1)


def test_the_like_of_a_tracer_follow_it() -> None:
    shapes = jax.vmap(lambda row: zeros_like(Tensor.from_array(row)).array + row)(jnp.ones((4, 3)))
    assert shapes.shape == (4, 3)
