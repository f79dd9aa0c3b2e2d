"""Other dtypes and devices, and new tensors that take after one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import oplib
from oplib.errors import ArgumentError, DeviceError, DtypeError
from oplib.tensor import Device, Tensor, tensor, zeros
from oplib.tensor.dtypes import names as dtypes

NAMES = ["float", "half", "bfloat16", "int", "bool"]


@pytest.mark.parametrize("name", NAMES)
def test_a_method_per_dtype_converts_or_returns_the_tensor_itself(name: str, converting: list[Any]) -> None:
    x = tensor([1, 0], dtype="int8")
    y = getattr(x, name)()
    assert y.dtype == getattr(dtypes, name)
    assert getattr(y, name)() is y
    assert converting == [getattr(dtypes, name)]


@pytest.mark.parametrize("name", ["double", "cdouble"])
def test_64_bits_need_x64(name: str, converting: list[Any]) -> None:
    with pytest.raises(DtypeError, match="was asked for while JAX's x64 is off"):
        getattr(zeros(1), name)()
    with jax.enable_x64(True):
        assert getattr(zeros(1), name)().dtype == getattr(dtypes, name)


@pytest.mark.parametrize("is_wide", [False, True])
def test_long_means_the_default_integer_dtype(is_wide: bool) -> None:
    with jax.enable_x64(is_wide):
        x = oplib.tensor([2.5, -1.0]).long()
        assert x.dtype == oplib.long == (dtypes.int64 if is_wide else dtypes.int32)
        assert x.long() is x
        assert x.tolist() == [2, -1]
        assert oplib.zeros(2, dtype=oplib.long).dtype == oplib.long


def test_long_refuses_values_that_int32_does_not_hold() -> None:
    for value in (3e9, -(2.0**40)):
        with pytest.raises(DtypeError, match="values do not fit int32"):
            oplib.tensor([1.0, value]).long()
    with pytest.raises(DtypeError, match="values do not fit int32"):
        oplib.tensor([2**40], dtype=oplib.long)


@pytest.mark.cpu
def test_to_takes_a_dtype_a_device_both_or_another_tensor(converting: list[Any]) -> None:
    x = zeros(2)
    assert x.to("cpu") is x.to(Device("cpu")) is x.to(device=None) is x.cpu() is x
    for args in ((dtypes.int8,), ("int8",), (np.int8,), ("cpu", dtypes.int8), (zeros(1, dtype="int8"),)):
        assert x.to(*args).dtype == dtypes.int8
    assert x.to(dtype=dtypes.int8, device="cpu").dtype == dtypes.int8
    assert x.type_as(zeros(1, dtype="int8")).dtype == dtypes.int8
    assert len(converting) == 7


def test_to_copies_where_it_is_told_to(converting: list[Any]) -> None:
    x = zeros(2)
    assert x.to(dtypes.float32, copy=True) is not x
    assert x.to(dtypes.float32, non_blocking=True) is x


@pytest.mark.parametrize("arg", [True, None])
def test_to_refuses_positional_flags(arg: Any) -> None:
    with pytest.raises(ArgumentError, match=r"to: positional arguments are a dtype, a device or a Tensor"):
        zeros(2).to("cpu", arg)


def test_a_device_that_is_not_there_is_refused() -> None:
    if all(device.platform != "gpu" for device in jax.devices()):
        with pytest.raises(DeviceError, match="no devices of type 'cuda'"):
            zeros(2).cuda()


@pytest.mark.devices(2)
def test_a_tensor_moves_to_another_device_and_back() -> None:
    first, second = jax.devices()[:2]
    x = tensor([1.0, 2.0], device=first)
    y = x.to(second)
    assert y.array.devices() == {second}
    assert y.to(x).array.devices() == {first}
    assert y.to(second) is y
    assert y.tolist() == [1.0, 2.0]


@pytest.mark.devices(2)
def test_a_move_that_is_recorded_is_an_op(calls: list[Any]) -> None:
    second = jax.devices()[1]
    x = tensor([1.0], requires_grad=True)
    calls.clear()
    x.to(second)
    assert calls == [("copy_to_device", (x, second), {})]


@pytest.mark.devices(2)
def test_a_tensor_can_be_sharded() -> None:
    sharding = NamedSharding(jax.make_mesh((2,), ("x",)), PartitionSpec("x"))
    x = zeros(4).to(sharding)
    assert x.sharding == sharding
    assert x.to(device=sharding) is x


def test_the_device_of_a_tracer_moves_nothing(converting: list[Any]) -> None:
    def convert(array: jax.Array) -> jax.Array:
        x = Tensor.from_array(array)
        assert x.to(x.device) is x
        return x.to(zeros(1, dtype="bfloat16")).array

    assert jax.jit(convert)(jnp.ones(2)).dtype == dtypes.bfloat16


def test_new_tensors_take_after_the_one_that_is_asked() -> None:
    x = zeros(2, dtype="int8", device="cpu")
    made = [
        x.new_zeros(3),
        x.new_ones((3,)),
        x.new_empty(3),
        x.new_full((3,), 2.5),
        x.new_tensor([1.5, 2, 3]),
    ]
    assert [y.dtype for y in made] == [dtypes.int8] * 5
    assert [y.tolist() for y in made] == [[0] * 3, [1] * 3, [0] * 3, [2] * 3, [1, 2, 3]]
    assert x.new_ones(1, dtype="float32", requires_grad=True).requires_grad


@pytest.mark.devices(2)
def test_new_tensors_stay_on_a_single_device_and_leave_a_sharding() -> None:
    second = jax.devices()[1]
    assert zeros(2, device=second).new_ones(3).array.devices() == {second}
    sharding = NamedSharding(jax.make_mesh((2,), ("x",)), PartitionSpec("x"))
    assert len(zeros(2, device=sharding).new_ones(3).array.devices()) == 1
