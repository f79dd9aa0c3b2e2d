"""Tensors on a mesh of eight devices: what a write leaves where it lies, and what is refused."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

import oplib
from oplib import Tensor
from oplib.errors import ArgumentValueError, DataError, DeviceError

pytestmark = [pytest.mark.devices(8), pytest.mark.spec("J.14", "J.19")]

X = np.arange(64, dtype=np.float32).reshape(8, 8) / 8


def make_mesh(kind: AxisType = AxisType.Auto) -> Mesh:
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)


def place(value: Any, mesh: Mesh, *spec: Any) -> Tensor:
    return Tensor.from_array(jax.device_put(value, NamedSharding(mesh, P(*spec))))


# Writes ---------------------------------------------------------------------------------------------------

Write = Callable[[Tensor, Tensor], Any]
COPIES: dict[str, tuple[Write, Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], Any]]] = {
    "copy_": (lambda x, y: x.copy_(y), lambda _, y: y),
    "copy_ of one device": (lambda x, _: x.copy_(oplib.ones(8, 8)), lambda _, y: np.ones_like(y)),
    "add_": (lambda x, y: x.add_(y), lambda x, y: x + y),
    "-=": (lambda x, y: x.__isub__(y), lambda x, y: x - y),
    "add out=": (lambda x, y: oplib.add(y, 1.0, out=x), lambda _, y: y + 1),
    "through data": (lambda x, y: x.data.copy_(y), lambda _, y: y),
    "through a view": (lambda x, y: x.view(64).copy_(y.reshape(64)), lambda _, y: y),
    "fill_": (lambda x, _: x.fill_(2.0), lambda x, _: np.full_like(x, 2)),
    "zero_ of data": (lambda x, _: x.data.zero_(), lambda x, _: 0 * x),
    "[...] = 3": (lambda x, _: x.__setitem__(..., 3.0), lambda x, _: np.full_like(x, 3)),
    "[2:6] = y": (
        lambda x, y: x.__setitem__(slice(2, 6), y[2:6]),
        lambda x, y: np.concatenate([x[:2], y[2:6], x[6:]]),
    ),
}
DRAWS = ("normal_", "uniform_", "random_", "exponential_")


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_write_leaves_a_tensor_where_it_lies(is_compiled):
    mesh = make_mesh()
    rows = NamedSharding(mesh, P("data"))
    tensors = [place(X, mesh, "data") for _ in COPIES]
    y = place(X.T, mesh, None, "model")
    before = [tensor._version for tensor in tensors]

    def write(y):
        for tensor, (run, _) in zip(tensors, COPIES.values(), strict=True):
            run(tensor, y)

    with oplib.no_grad():
        (oplib.jit(write) if is_compiled else write)(y)
    for tensor, version, (name, (_, right)) in zip(tensors, before, COPIES.items(), strict=True):
        assert tensor.sharding.is_equivalent_to(rows, 2), (name, tensor.sharding)
        np.testing.assert_allclose(tensor.numpy(), right(X, X.T), err_msg=name)
        assert tensor._version == version + ("data" not in name), name


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("name", DRAWS)
def test_drawn_numbers_come_to_lie_where_the_tensor_does(name, kind):
    drawn, alone = place(X, make_mesh(kind), "data", "model"), oplib.zeros(8, 8)
    before = drawn.sharding
    for tensor in (drawn, alone):
        oplib.manual_seed(3)
        getattr(tensor, name)()
    assert drawn.sharding.is_equivalent_to(before, 2)
    np.testing.assert_array_equal(drawn.numpy(), alone.numpy())


def test_a_recorded_write_keeps_the_layout_and_the_gradient():
    mesh = make_mesh()
    y = place(X, mesh, None, "model").requires_grad_()
    x = place(X, mesh, "data")
    x.mul_(y)
    assert x.sharding.is_equivalent_to(NamedSharding(mesh, P("data")), 2)
    (x * x).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), jax.grad(lambda y: ((X * y) ** 2).sum())(X), rtol=1e-6)


def test_a_gradient_that_grows_and_a_tensor_on_no_device_do_what_they_did():
    mesh = make_mesh()
    weight, free = place(X, mesh, "model").requires_grad_(), oplib.zeros(8, 8)
    weight.grad = place(X, mesh, None, "data")
    (weight * place(X, mesh)).sum().backward()
    assert weight.grad.sharding.is_equivalent_to(NamedSharding(mesh, P(None, "data")), 2)
    np.testing.assert_allclose(weight.grad.numpy(), 2 * X)
    free.add_(
        place(X, mesh, "data")
    )  # it moves to the mesh, as the first step of an Optimizer moves its state
    assert len(free.sharding.device_set) == 8


# Bad input ------------------------------------------------------------------------------------------------

FACTORIES = {
    "zeros": lambda at: oplib.zeros(6, 4, device=at),
    "full": lambda at: oplib.full((6, 4), 2.0, device=at),
    "empty": lambda at: oplib.empty(6, 4, device=at),
    "randn": lambda at: oplib.randn(6, 4, device=at),
    "tensor": lambda at: oplib.tensor(np.ones((6, 4), np.float32), device=at),
    "zeros_like": lambda at: oplib.zeros_like(oplib.ones(6, 4), device=at),
}


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_factory_names_the_dimension_that_the_mesh_does_not_divide(name, is_compiled):
    rows = NamedSharding(make_mesh(), P("data"))

    def make():
        return FACTORIES[name](rows)

    told = (
        rf"^{name}: the mesh does not divide dimension 0. Got shape \(6, 4\) for P\('data',\) over "
        r"\(data=4, model=2\); 6 is no multiple of 4. Spread another dimension, or pad this one.$"
    )
    with pytest.raises(ArgumentValueError, match=told):
        (oplib.jit(make) if is_compiled else make)()


def test_a_file_is_not_loaded_onto_a_mesh_that_does_not_divide_it():
    rows, file = NamedSharding(make_mesh(), P("data")), io.BytesIO()
    oplib.save([oplib.ones(8), oplib.ones(6)], file)
    file.seek(0)
    with pytest.raises(
        ArgumentValueError, match=r"load: the tree\[1\]: the mesh does not .* 6 is no multiple of 4"
    ):
        oplib.load(file, map_location=rows)
    with pytest.raises(DeviceError, match=r"Got P\('data',\)\. .* NamedSharding\(mesh, spec\)\.$"):
        oplib.load(file, map_location=P("data"))
    for tree, place in (
        ({"opt": [{"count": oplib.tensor(1)}]}, r"\['opt'\]\[0\]\['count'\]"),
        ((oplib.ones(4).array, np.float32(1), {0: oplib.ones(())}), r"\[2\]\[0\]"),
    ):
        file = io.BytesIO()
        oplib.save(tree, file)
        with pytest.raises(ArgumentValueError, match=rf"load: the tree{place}: .* Name at most 0\."):
            oplib.load(file, map_location=rows)
    half = io.BytesIO(file.getvalue()[: len(file.getvalue()) // 2])
    with pytest.raises(DataError, match="damaged"):
        oplib.load(half, map_location=rows)


def list_places():
    """Places of which no two go into one program, and how errors show them."""
    mesh = make_mesh()
    turned = Mesh(mesh.devices[::-1, ::-1], mesh.axis_names)
    four = Mesh(mesh.devices[:2], mesh.axis_names)
    return {
        "a mesh": (NamedSharding(mesh, P("data")), r"cpu:0 to cpu:7 \(8 devices\)"),
        "the mesh in another order": (NamedSharding(turned, P("data")), r"cpu:7 to cpu:0 \(8 devices\)"),
        "a smaller mesh": (NamedSharding(four, P("data")), "cpu:0, cpu:1, cpu:2, cpu:3"),
        "one device": (jax.devices()[3], "cpu:3"),
    }


@pytest.mark.parametrize("other", ["the mesh in another order", "a smaller mesh", "one device"])
def test_parameters_in_two_places_are_refused_by_name(other):
    places = list_places()
    (first, shown), (second, shown_too) = places["a mesh"], places[other]
    params = {"up": oplib.ones(8, 8).to(first), "free": oplib.ones(2), "down": oplib.ones(8, 8).to(second)}
    told = (
        rf"Optimizer: .* Got \['down'\] f32\[8,8\] on {shown_too}, and \['up'\] f32\[8,8\] on {shown}\. Move"
    )
    with pytest.raises(DeviceError, match=told):
        oplib.optim.Optimizer(optax.adam(0.1), params)


@pytest.mark.parametrize("other", ["a smaller mesh", "one device"])
def test_an_operand_on_fewer_devices_is_refused_and_nothing_is_written(other):
    places = list_places()
    (whole, shown), (fewer, shown_too) = places["a mesh"], places[other]
    weight = oplib.tensor(X).to(whole)

    @oplib.jit
    def step(x):
        weight.mul_(2)
        weight.add_(x)

    x = oplib.ones(8, 8).to(fewer)
    with pytest.raises(
        DeviceError, match=rf"step: .* Got argument 'x' on {shown_too}, and weight on {shown}\."
    ):
        step(x)
    for write in (step, weight.add_):
        with pytest.raises(ArgumentValueError, match=r"incompatible devices.* On a mesh, that is tensor\.to"):
            write(x.array if write is step else x)
    np.testing.assert_array_equal(weight.numpy(), X)
    assert weight._version == 0
    step(x.to(whole))
    np.testing.assert_array_equal(weight.numpy(), 2 * X + 1)


# Checkpoints ----------------------------------------------------------------------------------------------


def make_optimizer(sharding: Any = None, dtype: Any = None, transformation: Any = None):
    """An Optimizer after one step."""
    weight = oplib.ones(8, 8, dtype=dtype, device=sharding, requires_grad=True)
    optimizer = oplib.optim.Optimizer(transformation or optax.adam(0.1), {"weight": weight})
    (weight * weight).sum().backward()
    optimizer.step()
    return optimizer


def test_a_state_is_laid_out_as_the_one_that_it_replaces():
    rows = NamedSharding(make_mesh(), P("data"))
    spread, alone = make_optimizer(rows), make_optimizer()
    for target, source in ((spread, alone), (alone, spread)):
        before = [(tensor.sharding, tensor.array.committed) for tensor in target.state]
        target.load_state_dict(source.state_dict())
        for tensor, (sharding, is_committed), right in zip(target.state, before, source.state, strict=True):
            assert tensor.sharding.is_equivalent_to(sharding, tensor.ndim)
            assert tensor.array.committed == is_committed
            np.testing.assert_array_equal(tensor.numpy(), right.numpy())


def test_a_state_that_does_not_fit_is_named_and_changes_nothing():
    rows = NamedSharding(make_mesh(), P("data"))
    optimizer = make_optimizer(rows)
    right = {name: one.numpy() for name, one in optimizer.state_dict()["state"].items()}
    assert right["[0].nu['weight']"].any()
    other = {name: one + 1 for name, one in optimizer.state_dict(copy=True)["state"].items()}
    cut = {**other, "[0].nu['weight']": other["[0].nu['weight']"][:4]}
    narrow = {**other, "[0].nu['weight']": other["[0].nu['weight']"].to(oplib.bfloat16)}
    sgd = make_optimizer(rows, transformation=optax.sgd(0.1, momentum=0.9)).state_dict()
    for state, told in (
        (sgd, "Got no [0].count, [0].mu['weight'], [0].nu['weight'], besides [0].trace['weight']."),
        ({"state": cut}, "\"[0].nu['weight']\" does not fit. Got f32[4,8] for f32[8,8]."),
        ({"state": narrow}, "\"[0].nu['weight']\" does not fit. Got bf16[8,8] for f32[8,8]."),
    ):
        with pytest.raises(ArgumentValueError, match=re.escape(told)):
            optimizer.load_state_dict(state)
        for name, one in optimizer.state_dict()["state"].items():
            np.testing.assert_array_equal(one.numpy(), right[name])


@pytest.mark.parametrize("counts", [(1, 4), (2, 4), (4, 2), (4, 1), (2, 2)])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_copy_comes_from_a_mesh_of_other_devices(counts, kind):
    devices, values = jax.devices(), X[:, :4]
    own = jax.make_mesh((counts[0],), ("d",), axis_types=(kind,), devices=devices[: counts[0]])
    other = jax.make_mesh((counts[1],), ("e",), axis_types=(kind,), devices=devices[-counts[1] :])
    source = place(values, other, None, "e")
    for _ in range(2):  # the second call is prepared
        x = place(np.zeros_like(values), own, "d")
        assert x.copy_(source, non_blocking=True) is x
        assert x.tolist() == values.tolist()
        assert x.copy_(source[0]).tolist() == [values[0].tolist()] * 8
        x[:, 1].copy_(oplib.ones(8).to(devices[5]))
        assert x[:, 1].tolist() == [1] * 8
        assert x.sharding.is_equivalent_to(NamedSharding(own, P("d")), 2)
    weight = place(values, other, None, "e").requires_grad_()
    (place(values, own, "d").copy_(weight) * 2).sum().backward()
    assert weight.grad is not None
    assert weight.grad.sharding.is_equivalent_to(weight.sharding, 2)
    assert weight.grad.tolist() == (0 * values + 2).tolist()
    there = oplib.ones(8).to(devices[1])
    assert oplib.zeros(8).to(devices[2]).copy_(there).array.devices() == {devices[2]}
