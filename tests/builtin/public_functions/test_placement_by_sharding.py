"""``with_sharding_constraint`` and ``tensor.to(sharding)``, beside the same function in plain JAX."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import oplib
from oplib.errors import ArgumentTypeError, ArgumentValueError

pytestmark = [pytest.mark.devices(8), pytest.mark.spec("J.14")]

X = np.arange(64, dtype=np.float32).reshape(8, 8) / 8


def make_mesh(kind=AxisType.Auto):
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)


def constrain_in_jax(x, sharding):
    if AxisType.Explicit in sharding.mesh.axis_types:
        return jax.sharding.reshard(x, sharding)
    return jax.lax.with_sharding_constraint(x, sharding)


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_values_layouts_and_gradients_are_those_of_jax(kind, is_compiled):
    mesh = make_mesh(kind)
    rows, columns = NamedSharding(mesh, P("data")), NamedSharding(mesh, P(None, "model"))
    array = jax.device_put(X, rows)

    def in_jax(x):
        return (constrain_in_jax(x.sin() if isinstance(x, oplib.Tensor) else jnp.sin(x), columns) ** 2).sum()

    x = oplib.Tensor.from_array(array, requires_grad=True)

    def run(x):
        y = oplib.with_sharding_constraint(x.sin(), columns)
        (first,) = oplib.autograd.grad((y**2).sum(), [x], create_graph=True)
        (second,) = oplib.autograd.grad((first * X[0]).sum(), [x])
        return y.detach(), first.detach(), second

    y, first, second = (oplib.jit(run) if is_compiled else run)(x)
    assert y.sharding.is_equivalent_to(columns, 2)
    np.testing.assert_allclose(y.numpy(), np.sin(X), rtol=1e-6)
    right = jax.jit(jax.grad(in_jax))(array)
    np.testing.assert_allclose(first.numpy(), right, rtol=1e-5, atol=1e-6)
    twice = jax.jit(jax.grad(lambda x: (jax.grad(in_jax)(x) * X[0]).sum()))(array)
    np.testing.assert_allclose(second.numpy(), twice, rtol=1e-5, atol=1e-5)


def test_a_program_has_the_constraints_of_jax():
    mesh = make_mesh()
    rows, columns = NamedSharding(mesh, P("data")), NamedSharding(mesh, P(None, "model"))
    array = jax.device_put(X, rows)

    def read_constraints(lowered):
        return re.findall(r"sdy\.sharding_constraint.*?<@mesh, (\[.*?\])>", lowered.as_text())

    right = jax.jit(jax.grad(lambda x: (jax.lax.with_sharding_constraint(x * 2, columns) ** 2).sum()))
    x = oplib.Tensor.from_array(array, requires_grad=True)
    for place in (oplib.with_sharding_constraint, oplib.Tensor.to):
        step = oplib.jit(lambda x, place=place: oplib.autograd.grad((place(x * 2, columns) ** 2).sum(), [x]))
        found = read_constraints(step.lower(x))
        assert found == read_constraints(right.lower(array)) != []


def test_arrays_are_laid_out_too_also_under_jit_and_grad():
    columns = NamedSharding(make_mesh(), P(None, "model"))
    array = jnp.asarray(X)
    found = oplib.with_sharding_constraint(array, columns)
    assert isinstance(found, jax.Array)
    assert found.sharding.is_equivalent_to(columns, 2)
    traced = jax.jit(lambda x: oplib.with_sharding_constraint(x * 2, columns))(array)
    assert traced.sharding.is_equivalent_to(columns, 2)
    right = jax.grad(lambda x: (oplib.with_sharding_constraint(x, columns) ** 2).sum())(array)
    np.testing.assert_allclose(right, 2 * X)


def test_a_tensor_of_one_device_moves_to_the_mesh_and_its_gradient_back():
    rows = NamedSharding(make_mesh(), P("data"))
    x = oplib.tensor(X, requires_grad=True)
    y = x.to(rows)
    assert y.sharding.is_equivalent_to(rows, 2)
    assert y.to(rows) is y
    (y * y).sum().backward()
    assert x.grad.sharding.device_set == x.sharding.device_set
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)


@pytest.mark.parametrize("make", [oplib.zeros, oplib.ones, oplib.empty, oplib.rand, oplib.randn])
def test_factories_take_a_sharding_as_device(make):
    rows = NamedSharding(make_mesh(), P("data"))
    made = make(8, 4, device=rows, requires_grad=True)
    assert made.sharding.is_equivalent_to(rows, 2)
    assert (made.requires_grad, made.is_leaf) == (True, True)
    assert oplib.zeros_like(made).sharding.is_equivalent_to(rows, 2)


def test_a_parameter_comes_from_a_callback_for_its_parts():
    rows = NamedSharding(make_mesh(), P("data", "model"))
    asked = []

    def read(index):
        asked.append(index)
        return X[index]

    w = oplib.Tensor.from_array(jax.make_array_from_callback(X.shape, rows, read), requires_grad=True)
    assert len(asked) == 8
    assert all(X[index].shape == (2, 4) for index in asked)
    np.testing.assert_array_equal(w.detach().numpy(), X)


# Bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("place", [oplib.with_sharding_constraint, oplib.Tensor.to])
def test_a_mesh_that_does_not_divide_a_dimension_is_named(place, is_compiled):
    rows = NamedSharding(make_mesh(), P(None, ("data", "model")))

    def run(x):
        return place(x, rows)

    text = r"f32\[2,12\] for P\(None, \('data', 'model'\)\) over \(data=4, model=2\); 12 is no multiple of 8"
    with pytest.raises(ArgumentValueError, match=text):
        (oplib.jit(run) if is_compiled else run)(oplib.ones(2, 12))
    with pytest.raises(ArgumentValueError, match="names 2 dimensions"):
        (oplib.jit(run) if is_compiled else run)(oplib.ones(8))


def test_other_arguments_are_refused():
    rows = NamedSharding(make_mesh(), P("data"))
    with pytest.raises(ArgumentTypeError, match="'sharding' is no Sharding"):
        oplib.with_sharding_constraint(oplib.ones(8), P("data"))
    with pytest.raises(ArgumentTypeError, match="neither a Tensor nor an array"):
        oplib.with_sharding_constraint([1.0, 2.0], rows)


FORMS = {
    "op by op": lambda function, x: function(x),
    "program": lambda function, x: oplib.jit(function)(x),
    "captured": lambda function, x: oplib.jit(lambda: function(x))(),
    "scan": lambda function, x: oplib.scan(lambda c, _: (function(c), None), x, None, length=1)[0],
    "vmap": lambda function, x: oplib.vmap(function)(x),
    "jax.jit": lambda function, x: oplib.Tensor.from_array(
        jax.jit(lambda a: function(oplib.Tensor.from_array(a)).array)(x.array)
    ),
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@each_form
@pytest.mark.parametrize("name", [0, 1, "cpu:1", oplib.device("cpu:1")])
def test_a_tensor_moves_to_a_device_in_every_mode(form, name):
    device = jax.devices("cpu")[name] if isinstance(name, int) else name
    target = jax.devices("cpu")[name if isinstance(name, int) else 1]
    for x in (oplib.arange(4.0), oplib.tensor([1, 2])):
        for function in (lambda x: x.to(device), lambda x: (x * 2).to(device) + 1):
            moved = form(function, x)
            assert moved.array.devices() == {target}
            assert moved.tolist() == function(x).tolist()


@each_form
def test_a_tensor_of_a_mesh_does_not_silently_stay_there(form):
    for kind in (AxisType.Auto, AxisType.Explicit):
        x = oplib.Tensor.from_array(jax.device_put(X, NamedSharding(make_mesh(kind), P("data"))))
        if form is FORMS["op by op"]:
            assert form(lambda x: x.to("cpu:1"), x).array.devices() == {jax.devices("cpu")[1]}
            continue
        with pytest.raises(ValueError, match="incompatible devices"):
            form(lambda x: x.to("cpu:1") * 2, x)
    with pytest.raises(ArgumentValueError, match=r"Tensor\.to, before a program\. On a mesh"):
        oplib.jit(lambda x: x.to("cpu:1") * 2)(x)


def test_gradients_of_a_move_to_a_device_in_a_program():
    w = oplib.arange(4.0).requires_grad_()
    (oplib.jit(lambda w: w.to("cpu:1") * 3)(w) ** 2).sum().backward()
    assert w.grad.tolist() == [0, 18, 36, 54]
    a = w.detach().array
    assert jax.grad(lambda a: (oplib.Tensor.from_array(a).to("cpu:1") ** 2).sum().array)(a).tolist() == [
        0,
        2,
        4,
        6,
    ]
