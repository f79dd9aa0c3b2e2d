"""Saved tensors in the memory of the host."""

import jax
import pytest

import oplib
from oplib.autograd.graph import save_on_cpu, saved_tensors_hooks


@pytest.fixture
def a():
    return oplib.tensor([1.0] * 1000, requires_grad=True)  # ones() would share its array


def kept(node):
    return [slot._packed for slot in node._raw_saved_tensors]


def kind(packed):
    return packed[1].array.sharding.memory_kind


@pytest.mark.cpu
@pytest.mark.spec("000.15")
def test_an_array_on_the_cpu_is_not_copied(a):
    with save_on_cpu():
        y = a * a
    sharding, tensor = kept(y.grad_fn)[0]
    assert tensor.array is a.array
    assert sharding == a.array.sharding
    y.sum().backward()
    assert a.grad.tolist() == [2.0] * 1000


@pytest.mark.spec("000.15")
def test_pinned_memory_is_another_kind_of_memory_and_values_come_back(a):
    with save_on_cpu(pin_memory=True):
        y = a * a
        z = y.exp()
    assert {kind(packed) for packed in (*kept(y.grad_fn), *kept(z.grad_fn))} == {"pinned_host"}
    assert y.grad_fn._saved_self.array.sharding == a.array.sharding
    z.sum().backward()
    assert a.grad[0].item() == pytest.approx(2 * 2.718281828)


@pytest.mark.spec("000.15")
def test_only_what_is_saved_inside_moves(a):
    y = a * a
    with save_on_cpu(pin_memory=True):
        pass
    assert kept(y.grad_fn) == [None, None]


@pytest.mark.spec("000.15")
def test_what_is_below_the_threshold_stays(a):
    small = oplib.ones(10).requires_grad_()
    with save_on_cpu(pin_memory=True, threshold=100):
        y, z = a * a, small * small
    assert kept(z.grad_fn)[0][0] is None
    assert kind(kept(z.grad_fn)[0]) == "device"
    assert kind(kept(y.grad_fn)[0]) == "pinned_host"
    z.sum().backward()
    assert small.grad.tolist() == [2.0] * 10


@pytest.mark.spec("000.15")
def test_an_array_that_is_saved_twice_can_be_kept_once(a):
    with save_on_cpu(pin_memory=True, deduplicate=True):
        y = a * a
        z = a.sin()
    first, second, third = (*kept(y.grad_fn), *kept(z.grad_fn))
    assert first[1].array is second[1].array is third[1].array
    with save_on_cpu(pin_memory=True):
        y = a * a
    first, second = kept(y.grad_fn)
    assert first[1].array is not second[1].array
    y.sum().backward()


@pytest.mark.spec("000.15")
def test_an_unknown_device_type_is_accepted(a):
    with save_on_cpu(device_type="nonexistent"):
        (a * a).sum().backward()
    assert isinstance(save_on_cpu(), saved_tensors_hooks)


@pytest.mark.spec("000.15")
@pytest.mark.devices(2)
def test_a_sharded_array_comes_back_sharded():
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2], axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    a = oplib.Tensor.from_array(jax.device_put(oplib.ones(4).array, sharding), requires_grad=True)
    with save_on_cpu(pin_memory=True):
        y = a * a
    assert kind(kept(y.grad_fn)[0]) == "pinned_host"
    assert y.grad_fn._saved_self.array.sharding == sharding
    y.sum().backward()
    assert a.grad.tolist() == [2.0] * 4


@pytest.mark.spec("000.15")
def test_under_a_trace_it_changes_nothing():
    def step(value):
        a = oplib.Tensor.from_array(value, requires_grad=True)
        with save_on_cpu(pin_memory=True):
            y = (a * a).sum()
        return oplib.autograd.grad(y, a)[0].array

    assert jax.jit(step)(oplib.ones(2).array).tolist() == [2.0, 2.0]
