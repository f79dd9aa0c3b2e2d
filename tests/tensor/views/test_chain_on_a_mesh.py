"""Views and their gradients on meshes with explicit and automatic axes, also of one device."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import oplib
from oplib.errors import ArgumentError, ArgumentValueError

pytestmark = pytest.mark.devices(4)
KINDS = pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto], ids=lambda kind: kind.name)
COMPILED = pytest.mark.parametrize("is_compiled", [False, True], ids=["op by op", "compiled backward"])
VIEWS = {
    "x[:, 0]": lambda x: x[:, 0],
    "x[:, 1:3]": lambda x: x[:, 1:3],
    "x[:, ::2]": lambda x: x[:, ::2],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(1, 1),
    "chunk": lambda x: x.chunk(2, 1)[0],
    "unbind": lambda x: x.unbind(1)[0],
    "expand": lambda x: x[:, :1].expand(8, 4),
    "transpose": lambda x: x.T,
}
ON_ONE_DEVICE = {  # on more, JAX asks for the sharding of a gather
    "x[1:3]": lambda x: x[1:3],
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "as_strided": lambda x: x.as_strided((4, 2), (4, 1)),
}
PLACES = [(name, count) for name in VIEWS for count in (1, 2, 4)] + [(name, 1) for name in ON_ONE_DEVICE]


def make(kind, count):
    mesh = jax.make_mesh((count,), ("d",), axis_types=(kind,), devices=jax.devices()[:count])
    array = jax.device_put(jnp.arange(32.0).reshape(8, 4), NamedSharding(mesh, P("d")))
    return oplib.Tensor.from_array(array).requires_grad_()


def run_backward(loss, is_compiled):
    if is_compiled:
        with oplib.autograd.compiled_autograd.enable():
            loss.backward()
    else:
        loss.backward()


@pytest.mark.matrix(3)
@KINDS
@COMPILED
@pytest.mark.parametrize(("name", "count"), PLACES)
def test_the_gradient_of_a_view_is_that_on_one_device(kind, is_compiled, name, count):
    view = (VIEWS | ON_ONE_DEVICE)[name]
    x, plain = make(kind, count), oplib.arange(32.0).reshape(8, 4).requires_grad_()
    for whole in (x, plain):
        run_backward((view(whole) ** 2).sum(), is_compiled)
    assert x.grad.tolist() == plain.grad.tolist()


WRITES = {
    "zero_": lambda y: y.zero_(),
    "fill_": lambda y: y.fill_(2.0),
    "copy_": lambda y: y.copy_(oplib.ones_like(y)),
    "sign_": lambda y: y.sign_(),
    "floor_": lambda y: y.floor_(),
    "normal_": lambda y: y.normal_(),
}


@pytest.mark.matrix(3)
@KINDS
@COMPILED
@pytest.mark.parametrize("counts", [(4, 2), (2, 4), (1, 4)], ids=str)
@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_a_write_without_gradient_works_on_one_mesh_after_another(kind, is_compiled, counts, write):
    for count in counts:
        x = make(kind, count)
        y = x * 1
        write(y[:, 1:3])
        run_backward((y * y).sum(), is_compiled)
        want = 2 * oplib.arange(32.0).reshape(8, 4)
        want[:, 1:3] = 0.0
        assert x.grad.tolist() == want.tolist()


def test_a_write_under_vmap_needs_the_mesh_and_says_so():
    x = make(AxisType.Explicit, 4).detach()

    def double(row):
        row = row * 1
        row[1:3].mul_(2.0)
        return row

    with pytest.raises(
        ArgumentValueError, match=r"Write 'with jax.set_mesh\(mesh\):' around the call"
    ) as caught:
        oplib.vmap(double)(x)
    assert "defect" not in str(caught.value)
    with jax.set_mesh(x.array.sharding.mesh):
        assert oplib.vmap(double)(x).tolist()[0] == [0.0, 2.0, 4.0, 3.0]


@pytest.mark.parametrize("write", [lambda row: row[0:1].zero_(), lambda row: row.__setitem__(0, 5.0)])
def test_a_write_in_a_map_on_explicit_axes_works_in_a_program_or_names_set_mesh(write):
    x = make(AxisType.Explicit, 4).detach()

    def change(row):
        row = row.clone()
        write(row)
        return row * 2

    expected = oplib.stack([change(row) for row in oplib.tensor(jax.device_get(x.array))])
    with jax.set_mesh(x.array.sharding.mesh):
        assert oplib.equal(oplib.vmap(change)(x), expected)
    assert oplib.equal(oplib.jit(oplib.vmap(change))(x), expected)
    with pytest.raises(ArgumentValueError, match=r"Write 'with jax\.set_mesh\(mesh\):' around the call"):
        oplib.vmap(change)(x)


def add_to_a_row(x):
    y = x * 1
    y[1].add_(1.0)
    return y


@pytest.mark.parametrize("compile_", [lambda f: f, oplib.jit], ids=["op by op", "oplib.jit"])
@pytest.mark.parametrize(
    "run",
    [lambda x: x[1] + 1, lambda x: x.view(4, 8) + 1, lambda x: x.unfold(0, 2, 2) + 1, add_to_a_row],
    ids=["slice", "reshape", "gather", "write"],
)
def test_a_part_whose_layout_jax_does_not_tell_is_refused_with_a_cure_that_works(run, compile_):
    x = make(AxisType.Explicit, 2).detach()
    with pytest.raises(ArgumentError, match=r"^view: JAX does not tell .*Lay the tensor out otherwise first"):
        compile_(run)(x).tolist()
    cured = x.to(NamedSharding(x.sharding.mesh, P()))
    assert compile_(run)(cured).tolist() == run(oplib.arange(32.0).reshape(8, 4)).tolist()
