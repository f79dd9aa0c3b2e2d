"""The gradients a pass starts with."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import oplib
from oplib.autograd.engine.backward_and_grad import tensor_or_tensors_to_tuple
from oplib.autograd.engine.root_gradients import calculate_shape, make_root_gradients
from oplib.autograd.graph import get_gradient_edge
from oplib.errors import AutogradError, GradientTypeError
from oplib.tensor import Tensor
from oplib.tensor.views import Chain


def output(*shape, dtype=jnp.float32):
    return Tensor.from_array(jnp.ones(shape, dtype), requires_grad=bool(jnp.issubdtype(dtype, jnp.inexact)))


@pytest.mark.spec("001.5")
def test_a_matching_gradient_passes_unchanged():
    given = output(2)
    assert make_root_gradients((output(2),), (given,), False)[0] is given


@pytest.mark.spec("001.5")
def test_a_mismatch_in_shape_names_the_position_and_both_shapes():
    with pytest.raises(
        AutogradError, match=r"Mismatch in shape: grad_output\[1\] has a shape of \(1, 2\) and output\[1\]"
    ):
        make_root_gradients((output(2), output(2)), (output(2), output(1, 2)), False)


@pytest.mark.spec("001.5")
def test_a_batched_mismatch_shows_one_sample_and_points_to_vmap():
    with pytest.raises(AutogradError, match=r"shape of \(3,\).*`is_grads_batched=True`.*vmap"):
        make_root_gradients((output(2),), (output(5, 3),), True)


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("shape", [(), (0, 2)])
def test_a_batched_gradient_without_a_batch_is_an_index_error(shape):
    with pytest.raises(IndexError, match="has no batch"):
        make_root_gradients((output(2),), (output(*shape),), True)


@pytest.mark.spec("001.5")
def test_complex_and_real_do_not_mix():
    with pytest.raises(AutogradError, match=r"grad_output\[0\] is c64\[2\] and output\[0\] is f32\[2\]"):
        make_root_gradients((output(2),), (output(2, dtype=jnp.complex64),), False)


@pytest.mark.spec("001.5")
def test_integers_are_accepted_as_gradients():
    given = output(2, dtype=jnp.int32)
    assert make_root_gradients((output(2),), (given,), False)[0] is given


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_one_item_gets_a_one_of_its_shape(shape):
    (one,) = make_root_gradients((output(*shape),), (None,), False)
    assert one.array.shape == shape
    assert float(one.array.sum()) == 1.0


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("shape", [(0,), (2,)])
def test_other_counts_of_items_get_no_implicit_gradient(shape):
    with pytest.raises(AutogradError, match="implicitly created only for scalar outputs"):
        make_root_gradients((output(*shape),), (None,), False)


@pytest.mark.spec("001.5")
def test_a_complex_scalar_gets_no_implicit_gradient():
    with pytest.raises(AutogradError, match=r"real scalar outputs. Got c64\[\]"):
        make_root_gradients((output(dtype=jnp.complex64),), (None,), False)


@pytest.mark.spec("001.5")
def test_an_output_without_grad_needs_none():
    assert make_root_gradients((Tensor.from_array(jnp.ones(3)),), (None,), False) == (None,)


@pytest.mark.spec("001.5")
def test_other_types_are_refused():
    with pytest.raises(GradientTypeError, match=r"either Tensors or None\. Got int for output 0"):
        make_root_gradients((output(2),), (3,), False)
    with pytest.raises(GradientTypeError, match="not a Tensor or GradientEdge"):
        make_root_gradients((3,), (None,), False)


@pytest.mark.spec("001.5")
def test_an_edge_gets_ones_of_its_slot():
    loss = (output(2) * 2).sum()
    (one,) = make_root_gradients((get_gradient_edge(loss),), (None,), False)
    assert one.item() == 1.0


@pytest.mark.spec("001.5")
def test_a_longer_side_is_cut():
    assert len(make_root_gradients((output(),), (None, None), False)) == 1


@pytest.mark.spec("001.4")
def test_calculate_shape_takes_the_batch_off():
    assert calculate_shape(output(2, 3), output(4, 2, 3), True) == ((2, 3), (2, 3))
    assert calculate_shape(output(2, 3), output(4, 2, 3), False) == ((2, 3), (4, 2, 3))


@pytest.mark.spec("001.6")
def test_one_or_several_gradients_as_a_tuple():
    one = oplib.tensor(1.0)
    assert tensor_or_tensors_to_tuple(None, 2) == (None, None)
    assert tensor_or_tensors_to_tuple(one, 2) == (one,)
    assert tensor_or_tensors_to_tuple([one, None], 7) == (one, None)
    with pytest.raises(TypeError, match=r"either Tensors or None, or a sequence of these\. Got 3"):
        tensor_or_tensors_to_tuple(3, 1)


PASSES = {
    "sum": lambda x: x.sum(),
    "sum over one dimension": lambda x: x.sum(0)[1],
    "mean": lambda x: x.mean(),
    "expand": lambda x: x.expand(5, 2, 3).sum(),
    "transpose": lambda x: x.t().sum(),
    "add": lambda x: (x + 1).sum(),
    "mul": lambda x: (x * x).sum(),
    "an item": lambda x: x[0, 0],
    "unbind": lambda x: x.unbind(0)[1].sum(),
    "a write": lambda x: x.clone().index_fill_(0, oplib.tensor([0]), 0).sum(),
}


@pytest.mark.devices(2)
@pytest.mark.parametrize("how", PASSES)
def test_a_gradient_lies_on_the_device_of_its_tensor(how):
    for device in (*jax.devices()[:2], *jax.devices()[:2]):
        x = Tensor.from_array(jax.device_put(jnp.ones((2, 3)), device), requires_grad=True)
        PASSES[how](x).backward()
        (again,) = oplib.autograd.grad(PASSES[how](x), x, create_graph=True)
        assert x.grad.device == again.device == x.device
        assert x.grad.array.devices() == again.array.devices() == {device}


@pytest.mark.devices(2)
def test_the_gradient_of_a_leaf_that_is_the_root_lies_on_its_device():
    for device in (*jax.devices()[:2], *jax.devices()[:2]):
        x = Tensor.from_array(jax.device_put(jnp.ones(()), device), requires_grad=True)
        x.backward()
        assert x.grad.array.devices() == {device}


@pytest.mark.devices(2)
def test_a_gradient_of_a_compiled_call_lies_on_the_device_of_its_tensor():
    total = oplib.jit(lambda x: x.sum())
    for device in (*jax.devices()[:2], *jax.devices()[:2]):
        x = Tensor.from_array(jax.device_put(jnp.ones((2, 3)), device), requires_grad=True)
        total(x).backward()
        assert x.grad.array.devices() == {device}


@pytest.mark.devices(2)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_gradient_lies_on_the_mesh_of_its_tensor(kind):
    mesh = jax.make_mesh((2,), ("a",), axis_types=(kind,))
    array = jax.device_put(jnp.ones((4, 6)), NamedSharding(mesh, PartitionSpec("a", None)))
    for is_set in (False, True, False):
        x = Tensor.from_array(array, requires_grad=True)
        with jax.set_mesh(mesh) if is_set else nullcontext():
            x.t().sum().backward()
        assert x.grad.array.devices() == array.devices()
        assert x.grad.tolist() == [[1.0] * 6] * 4
    alone = oplib.ones(4, 6, requires_grad=True)
    alone.t().sum().backward()
    assert alone.grad.array.devices() == {jax.devices()[0]}


def test_a_root_gradient_on_the_default_device_is_not_committed():
    x = Tensor.from_array(jax.device_put(jnp.ones(3), jax.devices()[0]), requires_grad=True)
    y = oplib.ones(3, requires_grad=True)
    for one in (x, y):
        one.sum().backward()
        assert not one.grad.array.committed  # so both keep the gradient, and share one compiled call


@pytest.mark.devices(2)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_root_gradient_that_was_made_on_a_mesh_serves_this_mesh_only(kind):
    mesh = jax.make_mesh((2,), ("a",), axis_types=(kind,))

    def differentiate():  # no other test has a root of this kind
        x = Tensor.from_array(jnp.ones((1, 1, 1, 1), jnp.bfloat16), requires_grad=True)
        (x * 2).backward()
        return x.grad

    with jax.set_mesh(mesh):
        assert differentiate().item() == 2.0
    found = differentiate()
    assert (found.item(), found.array.committed) == (2.0, False)
    assert found.array.devices() == {jax.devices()[0]}


def test_a_root_that_is_a_view_is_not_read(monkeypatch):
    x = oplib.ones(2, 3, requires_grad=True)
    row = x[1]
    with monkeypatch.context() as patched:
        patched.setattr(Chain, "read", None)
        row.backward(oplib.arange(3.0))
    assert x.grad.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 2.0]]
    with pytest.raises(AutogradError, match=r"grad_output\[0\] has a shape of \(2,\)"):
        x[1].backward(oplib.ones(2))
