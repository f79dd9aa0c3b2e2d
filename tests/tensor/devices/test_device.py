"""Devices: torch's names for JAX's devices."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import oplib
from oplib.errors import DeviceError
from oplib.tensor import Device, Tensor, tensor, zeros
from oplib.tensor.devices.device import find_common_device


def test_a_device_is_spelled_parsed_and_shown_as_in_torch() -> None:
    assert repr(Device("cuda:1")) == "device(type='cuda', index=1)"
    assert repr(Device("cpu")) == "device(type='cpu')"
    assert str(Device("cuda", 1)) == "cuda:1"
    assert (Device("tpu").type, Device("tpu").index) == ("tpu", None)
    assert Device(Device("cuda:2")) == Device("cuda", 2)


def test_the_root_has_the_class_under_torchs_name_as_well() -> None:
    assert oplib.device is oplib.Device is Device


def test_gpu_and_cuda_are_one() -> None:
    assert Device("gpu:0") == Device("cuda:0")
    assert hash(Device("gpu")) == hash(Device("cuda"))


def test_an_index_makes_another_device() -> None:
    assert Device("cpu") != Device("cpu:0")
    assert Device("cpu") != "cpu"


@pytest.mark.parametrize("spelling", ["", "cuda:x", "cuda:-1", "cuda:", ":1", "cuda:01", 1.5, None])
def test_a_text_that_is_not_a_device_is_refused(spelling: Any) -> None:
    with pytest.raises(DeviceError, match=r"device: the argument is not a device\. Got .*\. Write \"cpu\""):
        Device(spelling)


@pytest.mark.parametrize(("spelling", "index"), [("cuda:1", 0), ("cuda", -1)])
def test_an_index_is_given_once_and_is_not_negative(spelling: str, index: int) -> None:
    with pytest.raises(DeviceError, match="an index is given once, and counts from 0"):
        Device(spelling, index)


@pytest.mark.cpu
def test_a_platform_that_is_not_there_is_named_when_it_is_needed() -> None:
    absent = Device("nowhere")
    with pytest.raises(DeviceError, match=r"JAX has no devices of type 'nowhere' here\. It has .*cpu"):
        zeros(2, device=absent)


def test_an_index_beyond_the_last_device_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"device: cpu:99 is not there\. This process has \d+ of type cpu"):
        Device("cpu:99").to_jax()


def test_devices_pickle() -> None:
    assert pickle.loads(pickle.dumps(Device("cuda:3"))) == Device("cuda:3")


@pytest.mark.cpu
def test_the_first_cpu_is_called_as_in_torch() -> None:
    assert zeros(2).device == Device("cpu")
    assert Device(jax.local_devices(backend="cpu")[0]) == Device("cpu")


@pytest.mark.devices(2)
def test_a_further_device_has_its_index() -> None:
    second = jax.devices()[1]
    for device in (f"{second.platform}:1", second, Device(second)):
        x = zeros(2, device=device)
        assert x.device == Device(second.platform, 1)
        assert x.array.devices() == {second}


@pytest.mark.devices(2)
def test_without_an_index_the_default_device_of_jax_is_meant() -> None:
    second = jax.devices()[1]
    with jax.default_device(second):
        assert Device(second.platform).to_jax() == second
        assert zeros(2).device.index == 1


@pytest.mark.devices(2)
def test_a_sharded_tensor_has_a_sharding_and_no_device() -> None:
    sharding = NamedSharding(jax.make_mesh((2,), ("x",)), PartitionSpec("x"))
    x = Tensor.from_array(jax.device_put(jnp.arange(4.0), sharding))
    assert x.sharding == sharding
    with pytest.raises(DeviceError, match=r"the tensor is on 2 devices\. Got f32\[4\] .*tensor\.sharding"):
        _ = x.device
    assert tensor([1.0, 2.0], device=sharding).sharding == sharding


@pytest.mark.cpu
def test_the_common_device_is_that_of_all_arrays_with_values() -> None:
    found: list[Any] = []

    @jax.jit
    def trace(traced: jax.Array) -> jax.Array:
        found.extend(find_common_device(arrays) for arrays in ([traced, kept], [traced], []))
        return traced

    kept = jnp.ones(2)
    trace(kept)
    assert found == [Device("cpu"), None, None]
    assert find_common_device([kept, jnp.zeros(3)]) == Device("cpu")


def test_arrays_that_another_thread_has_donated_have_a_device() -> None:
    """One that traces a step while another one runs it."""
    donated = jnp.ones(2)
    donated.delete()
    assert find_common_device([donated]) == Device("cpu")


def test_a_tracer_is_on_the_abstract_device_which_places_nothing() -> None:
    found: list[Device] = []

    def double(array: jax.Array) -> jax.Array:
        x = Tensor.from_array(array)
        found.append(x.device)
        return array * zeros(2, device=x.device).array

    jax.jit(double)(jnp.ones(2))
    assert found == [Device("abstract")]
