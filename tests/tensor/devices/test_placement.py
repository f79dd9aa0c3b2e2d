"""Where new values go: bound only where somebody means it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import DeviceError
from oplib.tensor import Device, Tensor, rand, tensor, zeros
from oplib.tensor.devices.placement import (
    find_other_device,
    find_other_placement,
    find_placement,
    find_target,
    make_transfer,
)


def test_an_integer_is_the_index_of_a_gpu() -> None:
    if any(device.platform == "gpu" for device in jax.devices()):
        assert find_target(0) == jax.devices("gpu")[0]
    else:
        with pytest.raises(DeviceError, match="no devices of type 'cuda'"):
            find_target(0)


@pytest.mark.parametrize("device", [None, Device("abstract"), "abstract"])
def test_no_device_and_the_abstract_one_leave_the_choice_to_jax(device: Any) -> None:
    assert find_target(device) is find_placement(device) is None


def test_naming_the_default_device_binds_nothing() -> None:
    kind = Device(jax.devices()[0]).type
    x = zeros(2)
    for made in (
        x,
        zeros(2, device=kind),
        tensor([1.0], device=kind),
        x.new_ones(2),
        rand(2, device=x.device),
    ):
        assert not made.array.committed


@pytest.mark.devices(2)
def test_an_index_or_a_device_of_jax_binds() -> None:
    first = jax.devices()[0]
    for device in (f"{first.platform}:0", first):
        assert zeros(2, device=device).array.committed


@pytest.mark.devices(2)
def test_what_is_bound_makes_bound_tensors() -> None:
    x = Tensor.from_array(jax.device_put(jnp.ones(2), jax.devices()[0]))
    assert x.array.committed
    assert x.new_zeros(3).array.committed


@pytest.mark.devices(2)
def test_a_move_to_the_default_device_moves() -> None:
    first, second = jax.devices()[:2]
    x = zeros(2, device=second)
    assert x.to(first.platform).array.devices() == {first}
    assert x.to(Device(first)).array.devices() == {first}


@pytest.mark.devices(2)
def test_a_value_of_another_shape_follows_one_other_device_and_no_mesh() -> None:
    other = jax.devices()[1]
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2])
    sharded = jax.device_put(jnp.ones(4), jax.NamedSharding(mesh, jax.P("data")))
    moved = jax.device_put(jnp.ones(4), other)
    found = find_other_device(moved)
    assert found is not None
    assert found.device_set == {other}
    assert find_other_device(sharded) is None
    assert find_other_placement(sharded) == sharded.sharding
    for one in (jnp.ones(4), jax.device_put(jnp.ones(4), jax.devices()[0])):
        assert find_other_device(one) is find_other_placement(one) is None


@pytest.mark.devices(2)
def test_a_transfer_binds_where_a_sharding_is_given() -> None:
    values = np.arange(3.0, dtype=np.float32)
    assert not make_transfer(None)(values).committed
    there = jax.device_put(jnp.ones(3), jax.devices()[-1]).sharding
    made = make_transfer(there)(values)
    assert made.committed
    assert made.sharding == there
    assert made.tolist() == [0.0, 1.0, 2.0]


def test_a_transfer_makes_an_array_where_jax_compiles_nothing() -> None:
    with jax.disable_jit():
        assert isinstance(make_transfer(None)(np.ones(2)), jax.Array)
