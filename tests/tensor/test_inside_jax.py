"""Tensors inside JAX's transformations: the tape runs there, and what would leave a trace is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import oplib
from oplib import Tensor
from oplib.autograd import grad, graph
from oplib.errors import AutogradError, MissingRuleError, TracingError
from tests.autograd.functions import Product

A = jnp.array([0.5, 1.0, 1.5, 2.0])
W = jnp.array([1.0, 2.0, 3.0, 4.0])
SHARDED, REPLICATED = PartitionSpec("i"), PartitionSpec()


def tape(a, w):
    """A gradient that the tape takes of Tensors made from its arguments."""
    x, t = Tensor.from_array(a, requires_grad=True), Tensor.from_array(w)
    return grad((x * x * t).sum() + x.exp().sum(), x)[0].array


def formula(a, w):
    return 2 * a * w + jnp.exp(a)


def accumulate(a, w):
    """The same by ``backward``."""
    x, t = Tensor.from_array(a, requires_grad=True), Tensor.from_array(w)
    ((x * x * t).sum() + x.exp().sum()).backward()
    return x.grad.array


def scan(f):
    return lambda a, w: jax.lax.scan(lambda c, x: (f(c, x) * 0.1, c.sum()), a, jnp.stack([w, w]))


TRANSFORMS = {
    "eager": lambda f: f,
    "jit": jax.jit,
    "vmap": lambda f: lambda a, w: jax.vmap(f, (0, None))(jnp.stack([a, 2 * a]), w),
    "grad": lambda f: jax.grad(lambda a, w: f(a, w).sum(), (0, 1)),
    "jvp": lambda f: lambda a, w: jax.jvp(f, (a, w), (w, a)),
    "jit of hessian": lambda f: jax.jit(jax.hessian(lambda a, w: f(a, w).sum())),
    "jacfwd": jax.jacfwd,
    "jacrev": jax.jacrev,
    "scan": scan,
    "grad of scan": lambda f: jax.grad(lambda a, w: scan(f)(a, w)[0].sum()),
    "cond": lambda f: lambda a, w: jax.lax.cond(a.sum() > 0, f, lambda a, w: a, a, w),
    "while": lambda f: (
        lambda a, w: jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1], w) * 0.1), (0, a))
    ),
    "checkpoint": lambda f: jax.grad(lambda a, w: jax.checkpoint(f)(a, w).sum()),
}


def assert_close(found, due):
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), found, due)


@pytest.mark.spec("D.13")
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_tape_runs_inside(transform):
    assert_close(TRANSFORMS[transform](tape)(A, W), TRANSFORMS[transform](formula)(A, W))


@pytest.mark.spec("D.13")
@pytest.mark.parametrize("transform", ["jit", "vmap", "checkpoint", "scan"])
def test_backward_accumulates_into_leaves_made_inside(transform):
    assert_close(TRANSFORMS[transform](accumulate)(A, W), TRANSFORMS[transform](formula)(A, W))


# Meshes -----------------------------------------------------------------------------------------------------


def on_mesh(f, spec, *, check_vma=True, out=SHARDED):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(f, mesh=mesh, in_specs=(SHARDED, spec), out_specs=out, check_vma=check_vma)
    return jax.jit(mapped)


@pytest.mark.devices(4)
@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("spec", [SHARDED, REPLICATED], ids=["sharded", "replicated"])
def test_the_tape_runs_in_shard_map(spec, check_vma):
    w = W if spec is SHARDED else W[:1]
    assert_close(on_mesh(tape, spec, check_vma=check_vma)(A, w), formula(A, w))


@pytest.mark.devices(4)
def test_jax_differentiates_a_tape_in_shard_map():
    found = jax.grad(lambda a: on_mesh(tape, REPLICATED)(a, W[:1]).sum())(A)
    assert_close(found, jax.grad(lambda a: formula(a, W[:1]).sum())(A))


def make_product(kind):
    def product(x, y):
        return x * y

    if kind == "built in":
        return oplib.mul
    if kind == "function":
        return Product.apply
    annotation = jax.Array if kind == "compiled" else Tensor
    product.__annotations__ = {"x": annotation, "y": annotation, "return": annotation}
    op = oplib.custom_op(f"inside_jax::product_{kind}", product)
    op.register_autograd(
        Product.backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return op


@pytest.mark.devices(4)
@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("kind", ["built in", "compiled", "eager", "function"])
def test_the_gradient_of_what_is_replicated_is_the_sum_over_the_mesh(kind):
    product = make_product(kind)

    def by_weight(a, w):
        x, t = Tensor.from_array(a), Tensor.from_array(w, requires_grad=True)
        return grad(product(x, t).exp().sum(), t)[0].array

    found = on_mesh(by_weight, REPLICATED, out=REPLICATED)(A, W[:1])
    assert_close(found, jax.grad(lambda w: jnp.exp(A * w).sum())(W[:1]))


@pytest.mark.devices(4)
def test_the_tape_runs_on_an_explicit_mesh():
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        a, w = (jax.device_put(one, jax.NamedSharding(mesh, SHARDED)) for one in (A, W))
        found = np.asarray(jax.jit(tape)(a, w))
    assert_close(found, formula(A, W))


ROWS = jnp.arange(24.0).reshape(8, 3) * 0.1


def map_rows(x, w):
    """Gradients through a map over rows, with a view, by rows and by what is the same for all."""
    rows, weights = Tensor.from_array(x, requires_grad=True), Tensor.from_array(w, requires_grad=True)
    total = oplib.vmap(lambda a: (a * weights).exp()[1:].sum())(rows).sum()
    return tuple(one.array for one in grad(total, (rows, weights)))


@pytest.mark.devices(4)
@pytest.mark.parametrize("kind", ["auto", "shard_map", "explicit"])
def test_a_map_over_a_batch_that_is_spread_over_a_mesh(kind):
    axis_type = AxisType.Explicit if kind == "explicit" else AxisType.Auto
    mesh = jax.make_mesh((4,), ("i",), axis_types=(axis_type,))
    due = jax.grad(lambda x, w: jnp.exp(x * w)[:, 1:].sum(), (0, 1))(ROWS, W[:3])
    specs = (SHARDED, REPLICATED)
    function = (
        jax.shard_map(map_rows, mesh=mesh, in_specs=specs, out_specs=specs)
        if kind == "shard_map"
        else map_rows
    )
    with jax.set_mesh(mesh):
        given = [
            jax.device_put(one, jax.NamedSharding(mesh, spec))
            for one, spec in zip((ROWS, W[:3]), specs, strict=True)
        ]
        found = [np.asarray(one) for one in jax.jit(function)(*given)]
    assert_close(found, list(due))


# Rules of ops -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("annotation", [jax.Array, Tensor], ids=["compiled", "eager"])
def test_jax_finds_the_rule_of_an_op_that_is_called_on_tensors(annotation):
    def triple(x):
        return x * 3

    triple.__annotations__ = {"x": annotation, "return": annotation}
    op = oplib.custom_op("inside_jax::triple", triple)
    op.register_autograd(lambda ctx, g: g * 7)
    on_tensors = lambda a: op(Tensor.from_array(a)).array.sum()  # noqa: E731
    assert jax.grad(on_tensors)(A).tolist() == [7.0] * 4
    assert jax.jit(jax.vmap(jax.grad(on_tensors)))(A[:, None]).tolist() == [[7.0]] * 4


# What would leave the trace ---------------------------------------------------------------------------------


def leak_gradient(outer):
    return lambda a: (outer * Tensor.from_array(a)).sum().backward()


def write_into(outer):
    return lambda a: outer.add_(Tensor.from_array(a))


LEAKS = {
    "a gradient": (leak_gradient, r"the leaf f32\[4\], .*outlives it.*autograd\.grad\(outputs, inputs\)"),
    "an assigned gradient": (
        lambda outer: lambda a: setattr(outer, "grad", Tensor.from_array(a)),
        r"grad: a traced value would be stored in a tensor made outside.*Return the value",
    ),
    "a write": (
        lambda outer: write_into(outer.detach()),
        r"add_: a traced value would be stored in a tensor made outside.* Got f32\[4\] for f32\[4\]",
    ),
    "a write into the result of an op": (
        lambda outer: write_into((outer * 1).detach()),
        r"add_: a traced value would be stored .*the op that is not in place",
    ),
    "an item": (
        lambda outer: lambda a: outer.detach().__setitem__(0, Tensor.from_array(a)[0]),
        r"a traced value would be stored",
    ),
}
TRACES = {
    "jit": jax.jit,
    "grad": lambda f: jax.grad(lambda a: f(a).sum()),
    "vmap": lambda f: lambda a: jax.vmap(f)(a[None]),
    "scan": lambda f: lambda a: jax.lax.scan(lambda c, _: (f(c), None), a, None, length=2),
    "checkpoint": jax.checkpoint,
}


@pytest.mark.spec("D.13")
@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize("leak", LEAKS)
def test_a_traced_value_is_not_stored_in_what_outlives_the_trace(leak, trace):
    make, text = LEAKS[leak]
    outer = oplib.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    run = make(outer)

    def function(a):
        run(a)
        return a * 1

    if trace == "checkpoint":  # which traces only where it is differentiated or compiled
        function = jax.jit(function)
    with pytest.raises(TracingError, match=text):
        TRACES[trace](function)(A)
    assert (outer.tolist(), outer.grad, outer._version) == ([1.0, 2.0, 3.0, 4.0], None, 0)
    outer.sum().backward()  # and it is as good as before
    assert outer.grad.tolist() == [1.0] * 4


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("annotation", [jax.Array, Tensor], ids=["compiled", "eager"])
def test_an_op_that_writes_does_not_store_a_traced_value_outside(annotation):
    def accumulate_into(x, y):
        if annotation is Tensor:
            x.add_(y)
            return None
        return x + y

    returned = None if annotation is Tensor else annotation
    accumulate_into.__annotations__ = {"x": annotation, "y": annotation, "return": returned}
    op = oplib.custom_op("inside_jax::accumulate", accumulate_into, mutates_args=("x",))
    outer = oplib.zeros(4) * 1
    with pytest.raises(TracingError, match="a traced value would be stored in a tensor made outside"):
        jax.jit(lambda a: op(outer, Tensor.from_array(a)) or a)(A)
    assert outer.tolist() == [0.0] * 4

    def inside(a):
        total = oplib.zeros(4)
        op(total, Tensor.from_array(a))
        return total.array

    assert jax.jit(inside)(A).tolist() == A.tolist()


@pytest.mark.usefixtures("forget_ops")
def test_a_writing_op_on_arrays_gives_the_new_value_and_has_no_derivative():
    def decay(p: jax.Array, rate: float) -> jax.Array:
        return p * rate

    op = oplib.custom_op("inside_jax::decay", decay, mutates_args=("p",))
    functional = lambda p: op._opoverload.functional(p, 0.5)  # noqa: E731
    due = (A * 0.5).tolist()
    assert (
        functional(A).tolist() == jax.jit(functional)(A).tolist() == jax.vmap(functional)(A).tolist() == due
    )
    assert A.tolist() == [0.5, 1.0, 1.5, 2.0]
    with pytest.raises(MissingRuleError, match=r"inside_jax::decay: .*the op writes an argument"):
        jax.grad(lambda p: functional(p).sum())(A)


# Whole steps ------------------------------------------------------------------------------------------------


def step_on_arrays(params, x, y):
    """One step of training, whose Tensors are born and die inside."""
    first, second = (Tensor.from_array(one, requires_grad=True) for one in params)
    loss = ((Tensor.from_array(x).matmul(first).tanh().matmul(second) - Tensor.from_array(y)) ** 2).mean()
    loss.backward()
    return [
        one - 0.1 * leaf.grad.array for one, leaf in zip(params, (first, second), strict=True)
    ], loss.array


def step_on_tensors(params, x, y):
    """The same in place, as one writes it eagerly."""
    loss = ((x.matmul(params[0]).tanh().matmul(params[1]) - y) ** 2).mean()
    loss.backward()
    with oplib.no_grad():
        for one in params:
            one.sub_(0.1 * one.grad)
            one.grad = None
    return loss


def test_a_training_step_under_jit_is_the_eager_one():
    keys = jax.random.split(jax.random.key(0), 4)
    shapes = [(4, 8), (8, 1), (16, 4), (16, 1)]
    first, second, x, y = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes, strict=True))
    traced, step = [first, second], jax.jit(step_on_arrays)
    eager = [Tensor.from_array(one, requires_grad=True) for one in traced]
    for _ in range(3):
        traced, loss = step(traced, x, y)
        eager_loss = step_on_tensors(eager, Tensor.from_array(x), Tensor.from_array(y))
    assert loss == pytest.approx(eager_loss.item(), rel=1e-5)
    assert_close(traced, [one.detach().numpy() for one in eager])


def step_on_trees(params, x):
    """A step whose parameters are Tensors as JAX hands them in and out."""
    (by_weight,) = grad((params["w"] * params["w"] * x).sum(), params["w"])
    return {"w": Tensor.from_array(params["w"].array - 0.1 * by_weight.array, requires_grad=True)}


def test_tensors_go_in_and_out_of_jit_as_leaves_with_their_flag():
    params = {"w": Tensor.from_array(A, requires_grad=True)}
    after = jax.jit(step_on_trees)(params, Tensor.from_array(W))
    assert (after["w"].requires_grad, after["w"].is_leaf) == (True, True)
    assert_close(after["w"].detach().numpy(), A - 0.2 * A * W)


def test_tensors_are_carried_by_scan():
    carried, losses = jax.lax.scan(
        lambda params, x: (step_on_trees(params, x), (params["w"] * x).sum().detach()),
        {"w": Tensor.from_array(A, requires_grad=True)},
        Tensor.from_array(jnp.stack([W, W])),
    )
    assert carried["w"].requires_grad
    assert_close(carried["w"].detach().numpy(), A * (1 - 0.2 * W) ** 2)
    assert losses.shape == (2,)


@pytest.mark.parametrize("function", [lambda t: t.array, lambda t: t * 2], ids=["as argument", "as result"])
def test_a_tensor_with_a_history_does_not_cross_the_border_of_jit(function):
    leaf = Tensor.from_array(A, requires_grad=True)
    given = leaf * 1 if function(oplib.ones(4)).shape and "array" in function.__code__.co_names else leaf
    with pytest.raises(
        AutogradError, match=r"a Tensor with a history cannot be taken apart.*Use tensor\.detach"
    ):
        jax.jit(function)(given)


# Hooks ------------------------------------------------------------------------------------------------------


def test_hooks_run_when_the_step_is_traced():
    calls = []

    def function(a):
        x = Tensor.from_array(a, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: calls.append("tensor") or g * 3)
        y.retain_grad()
        x.register_post_accumulate_grad_hook(lambda leaf: calls.append("leaf"))
        y.sum().backward()
        return x.grad.array, y.grad.array

    compiled = jax.jit(function)
    assert [one.tolist() for one in compiled(A)] == [[6.0] * 4, [3.0] * 4]
    compiled(A)
    assert calls == ["tensor", "leaf"]


@pytest.mark.parametrize(
    "hooks",
    [lambda: graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2), graph.save_on_cpu],
    ids=["own", "cpu"],
)
def test_saved_tensor_hooks_are_handed_tracers(hooks):
    def function(a):
        x = Tensor.from_array(a, requires_grad=True)
        with hooks():
            y = (x * x).sum()
        return grad(y, x)[0].array

    assert_close(jax.jit(function)(A), 2 * A)
