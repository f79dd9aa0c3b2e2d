"""``lower``: no compiler runs, and operands need no values."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

import oplib
from oplib.errors import ArgumentTypeError, OplibError

pytestmark = pytest.mark.spec("J.20")

SHAPES = {"x": (16, 64), "weight": (64, 32), "momentum": (64, 32)}
SPECS = {"x": P("data"), "weight": P("data", "model"), "momentum": P("data", "model")}


def make_step(weight, momentum):
    @oplib.jit
    def step(x):
        weight.grad = None
        loss = (x @ weight).square().mean()
        loss.backward()
        with oplib.no_grad():
            momentum.mul_(0.9).add_(weight.grad)
            weight.sub_(momentum)
        return loss.detach()

    return step


def describe_operands(mesh):
    return {
        name: jax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, SPECS[name]))
        for name, shape in SHAPES.items()
    }


def lower_without_values(mesh):
    at = {name: oplib.Tensor.from_array(one) for name, one in describe_operands(mesh).items()}
    return make_step(at["weight"].requires_grad_(), at["momentum"]).lower(at["x"])


def test_lower_runs_no_compiler_and_the_call_compiles_once(caplog):
    weight = oplib.full((64, 32), 0.01, requires_grad=True)
    step, x = make_step(weight, oplib.zeros(64, 32)), oplib.ones(16, 64)
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        text = step.lower(x).as_text()
        assert "stablehlo.dot_general" in text
        assert "Finished XLA compilation of jit(step)" not in caplog.text
        assert weight.grad is None
        first = step(x)
        assert caplog.text.count("Finished XLA compilation of jit(step)") == 1
        step(x)
        step.lower(x)
    assert caplog.text.count("Finished XLA compilation of jit(step)") == 1
    assert step.compilations == 1
    np.testing.assert_allclose(first.item(), 0.64**2, rtol=1e-5)


@pytest.mark.devices(8)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_mesh_that_is_not_there_has_the_program_of_one_that_is(kind):
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)
    there = lower_without_values(mesh)
    elsewhere = lower_without_values(AbstractMesh((4, 2), ("data", "model"), axis_types=(kind,) * 2))
    # JAX names the layout of a result that is whole everywhere only where the devices are there.
    whole = ", sdy.sharding = #sdy.sharding<@mesh, []>"
    texts = [one.as_text().replace(whole, "") for one in (there, elsewhere)]
    assert texts[0] == texts[1]
    assert "num_partitions = 8" in texts[0]


@pytest.mark.devices(8)
def test_the_program_takes_the_memory_of_the_step_by_hand_and_has_its_values():
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    specs = describe_operands(mesh)

    def step(weight, momentum, x):
        loss, grad = jax.value_and_grad(lambda w: jnp.square(x @ w).mean())(weight)
        momentum = momentum * 0.9 + grad
        return weight - momentum, momentum, loss, grad

    layout = specs["weight"].sharding
    control = jax.jit(step, donate_argnums=(0, 1), out_shardings=(layout, layout, None, layout))
    right = control.lower(specs["weight"], specs["momentum"], specs["x"]).compile()
    found = lower_without_values(mesh).compile()
    sizes = [
        (one.argument_size_in_bytes, one.output_size_in_bytes, one.alias_size_in_bytes)
        for one in (found.memory_analysis(), right.memory_analysis())
    ]
    assert sizes[0] == sizes[1]
    assert found.as_text().count("all-reduce(") == right.as_text().count("all-reduce(")
    rng = np.random.default_rng(0)
    arrays = {
        name: jax.device_put(rng.normal(size=one.shape).astype(np.float32), one.sharding)
        for name, one in specs.items()
    }
    real = {name: oplib.Tensor.from_array(jnp.copy(one)) for name, one in arrays.items()}
    loss = make_step(real["weight"].requires_grad_(), real["momentum"])(real["x"])
    new, _, expected, grad = step(arrays["weight"], arrays["momentum"], arrays["x"])
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-5)
    np.testing.assert_allclose(real["weight"].detach().numpy(), new, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(real["weight"].grad.numpy(), grad, rtol=1e-5, atol=1e-6)


def test_arrays_without_values_stand_for_arrays():
    scaled = oplib.jit(lambda x: x * 2)
    text = scaled.lower(jax.ShapeDtypeStruct((3, 5), np.float32)).as_text()
    assert text == scaled.lower(np.ones((3, 5), np.float32)).as_text()


# Bad input ------------------------------------------------------------------------------------------------


def test_a_call_needs_values():
    scaled = oplib.jit(lambda x: x * 2)
    spec = jax.ShapeDtypeStruct((3,), np.float32)
    with pytest.raises(ArgumentTypeError, match=r"a call needs values. Got f32\[3\], a jax.ShapeDtypeStruct"):
        scaled(spec)
    empty = oplib.Tensor.from_array(spec)
    assert (empty.shape, empty.dtype) == ((3,), oplib.float32)
    with pytest.raises(OplibError):
        scaled(empty)
    with pytest.raises(OplibError):
        _ = empty * 2
