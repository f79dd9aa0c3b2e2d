"""A compiled step on eight devices, and in two processes: the code is that of one device."""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import oplib
from tests.documents import ROOT
from tests.library.batching_and_sharding.test_sharding_processes import find_free_port
from tests.transforms.jit.mlp import HIDDEN, Training

pytestmark = pytest.mark.spec("J.14")

SPREADS = {
    "data parallel": {"x": P("i"), "y": P("i")},
    "sharded weights": {"first": P("i"), "bias": P("i"), "second": P(None, "i")},
    "both": {"x": P("j"), "y": P("j"), "first": P("i"), "bias": P("i"), "second": P(None, "i")},
}
MESHES = {"data parallel": (8, 1), "sharded weights": (8, 1), "both": (4, 2)}


def train(spread, shape):
    mesh = jax.make_mesh(shape, ("i", "j"), axis_types=(AxisType.Auto,) * 2)
    training = Training(lambda name, one: jax.device_put(one, NamedSharding(mesh, spread.get(name, P()))))
    return training, training.train()


@pytest.mark.devices(8)
@pytest.mark.parametrize("kind", SPREADS)
def test_a_step_on_a_mesh_is_that_of_one_device(kind):
    alone = Training(lambda _, one: jax.device_put(one))
    expected = alone.train()
    training, losses = train(SPREADS[kind], MESHES[kind])
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for name, parameter in training.parameters.items():
        right = alone.parameters[name].detach().numpy()
        np.testing.assert_allclose(parameter.detach().numpy(), right, rtol=1e-4, atol=1e-6)
    assert training.step.compilations <= 2


@pytest.mark.devices(8)
def test_weights_on_no_device_in_particular_are_trained_with_data_on_a_mesh():
    """XLA spreads such a weight, and the new value lies on the mesh as a whole, in no such buffer."""
    sharding = NamedSharding(jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,)), P("i"))
    data = oplib.arange(8.0)
    spread = oplib.Tensor.from_array(jax.device_put(data.array, sharding))
    weights = [oplib.ones(8, requires_grad=True) for _ in range(2)]

    def step(weight, data):
        weight.grad = None
        (weight * weight * data).sum().backward()
        with oplib.no_grad():
            weight.sub_(weight.grad, alpha=0.1)

    compiled = oplib.jit(step)
    for _ in range(3):
        compiled(weights[0], spread)
        step(weights[1], data)
    np.testing.assert_allclose(weights[0].detach().numpy(), weights[1].detach().numpy(), rtol=1e-6)


@pytest.mark.devices(8)
@pytest.mark.parametrize("kind", SPREADS)
def test_parameters_momenta_and_gradients_keep_their_shardings(kind):
    training, _ = train(SPREADS[kind], MESHES[kind])
    for name, parameter in training.parameters.items():
        spec = SPREADS[kind].get(name, P())
        for tensor in (parameter, training.momenta[name], parameter.grad):
            sharding = tensor.detach().array.sharding
            assert len(sharding.device_set) == 8
            assert sharding.is_equivalent_to(NamedSharding(sharding.mesh, spec), tensor.ndim), (
                name,
                sharding,
            )


@pytest.mark.devices(8)
@pytest.mark.parametrize("kind", SPREADS)
def test_no_parameter_is_gathered(kind):
    training, _ = train(SPREADS[kind], MESHES[kind])
    text = training.step.lower(training.x, training.y).compile().as_text()
    assert "all-reduce" in text
    gathered = re.findall(r"= \S*\[([\d,]*)\]\S* all-gather", text)
    assert not [shape for shape in gathered if str(HIDDEN) in shape.split(",")], gathered


PROGRAM = """
import sys

import jax
import numpy as np

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{sys.argv[1]}", num_processes=2, process_id=int(sys.argv[2]))

from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from tests.transforms.jit.mlp import Training

mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
specs = {"x": P("i"), "y": P("i")}
if sys.argv[3] == "both":
    specs |= {"first": P("i"), "bias": P("i")}
training = Training(
    lambda name, one: jax.make_array_from_callback(
        one.shape, NamedSharding(mesh, specs.get(name, P())), lambda at: one[at]
    )
)
losses = training.train()
print("losses", *losses)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["data", "both"])
def test_two_processes_train_as_one(kind, monkeypatch):
    expected = Training(lambda _, one: jax.device_put(one)).train()
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    command = [sys.executable, "-c", PROGRAM, str(find_free_port())]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    processes = [subprocess.Popen([*command, str(number), kind], cwd=ROOT, **pipes) for number in range(2)]
    try:
        answers = [process.communicate(timeout=400)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for printed in answers:
        assert "losses " in printed, printed
        losses = [float(one) for one in printed.partition("losses ")[2].split()]
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
