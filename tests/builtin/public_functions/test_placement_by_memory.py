"""``tensor.to(sharding)`` between the memory of devices and that of their host, in every mode."""

import jax
import jax.numpy as jnp
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import oplib
from oplib import Tensor
from oplib.errors import ArgumentValueError

pytestmark = pytest.mark.devices(4)
MESHES = [(kind, count) for kind in (AxisType.Explicit, AxisType.Auto) for count in (1, 2, 4)]


@pytest.fixture(params=MESHES, ids=lambda mesh: f"{mesh[0].name} {mesh[1]}")
def places(request):
    kind, count = request.param
    mesh = jax.make_mesh((count,), ("d",), axis_types=(kind,), devices=jax.devices()[:count])
    device = NamedSharding(mesh, P("d"))
    return device, device.with_memory_kind("pinned_host")


def make(place):
    return Tensor.from_array(jax.device_put(jnp.arange(8.0), place))


def kind_of(tensor):
    return tensor.sharding.memory_kind


@pytest.mark.parametrize("run", [lambda function: function, oplib.jit], ids=["op by op", "program"])
def test_a_tensor_moves_there_and_back(places, run):
    device, host = places
    for move in (lambda x, place: x.to(place), oplib.with_sharding_constraint):
        moved = run(lambda x, move=move: move(x, host))(make(device))
        assert kind_of(moved) == "pinned_host"
        assert moved.sharding.is_equivalent_to(host, 1)
        back = run(lambda x, move=move: move(x, device) * 2)(moved)
        assert (kind_of(back), back.tolist()) == ("device", (make(device) * 2).tolist())
    assert run(lambda x: x.to(host).to(device) * 2)(make(device)).tolist() == back.tolist()


def test_so_does_one_in_a_transformation_of_jax(places):
    device, host = places
    array = make(device).array
    moved = jax.jit(lambda x: oplib.with_sharding_constraint(x, host))(array)
    assert moved.sharding.memory_kind == "pinned_host"

    def cube(x):
        there = Tensor.from_array(x).to(host)
        return (there.to(device) ** 3).sum().array

    assert jax.jit(jax.grad(cube))(array).tolist() == (3 * array**2).tolist()
    assert jax.jit(jax.grad(lambda x: jax.grad(cube)(x).sum()))(array).tolist() == (6 * array).tolist()
    assert jax.jit(lambda x: jax.jvp(cube, (x,), (x,))[1])(array) == (3 * array**3).sum()


@pytest.mark.parametrize("run", [lambda function: function, oplib.jit], ids=["op by op", "program"])
def test_the_gradient_goes_to_the_memory_of_its_tensor(places, run):
    device, host = places
    for place in (device, host):
        w = make(place).requires_grad_()
        run(lambda w=w: (w.to(host).to(device) ** 2).sum().backward())()
        assert kind_of(w.grad) == place.memory_kind
        assert w.grad.tolist() == (2 * make(device)).tolist()


@pytest.mark.parametrize("run", [lambda function: function, oplib.jit], ids=["op by op", "program"])
def test_an_op_names_both_memories_and_the_cure(places, run):
    device, host = places
    for function in (lambda x: x.to(host) * 2, lambda x: x.to(host) + x):
        with pytest.raises(ArgumentValueError, match=r"<host>.*Bring them.*tensor\.to\(.*'device'\)\)\.$"):
            run(function)(make(device))


def train(device, host, *, run, offloads_state, offloads_params):
    w = make(host if offloads_params else device).requires_grad_()
    optimizer = oplib.optim.Optimizer(optax.adam(0.1), [w])
    for tensor in optimizer.state:
        if offloads_state and tensor.ndim:
            tensor.data = tensor.to(host)

    def step(scale):
        (w.to(device) ** 2 * scale).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step = run(step)
    for number in range(3):
        step(number + 1.0)
    return w, optimizer, step


@pytest.mark.matrix(3)
@pytest.mark.parametrize("run", [lambda function: function, oplib.jit], ids=["op by op", "program"])
@pytest.mark.parametrize(("of_state", "of_params"), [(True, False), (False, True), (True, True)])
def test_parameters_and_the_state_of_an_optimizer_stay_in_the_memory_of_the_host(
    places, run, of_state, of_params
):
    device, host = places
    plain = train(device, host, run=run, offloads_state=False, offloads_params=False)[0]
    w, optimizer, step = train(device, host, run=run, offloads_state=of_state, offloads_params=of_params)
    assert w.tolist() == pytest.approx(plain.tolist())
    assert kind_of(w) == ("pinned_host" if of_params else "device")
    kinds = {kind_of(tensor) for tensor in optimizer.state if tensor.ndim}
    assert kinds == {"pinned_host" if of_state else "device"}
    assert getattr(step, "compilations", 1) == 1
