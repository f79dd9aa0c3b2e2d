"""Functions as arguments: what they close over becomes operands, and nothing keeps them alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import oplib
from oplib.errors import ArgumentError, TracingError
from oplib.library import CustomOpDef, custom_op, opcheck

pytestmark = [pytest.mark.usefixtures("small_heap", "with_64_bits", "forget_ops"), pytest.mark.spec("D.34")]
X = np.array([1.0, 2.0])
WEIGHT, FIXED = oplib.ones(2, requires_grad=True), oplib.ones(2)


def apply_derived(name: str) -> CustomOpDef:
    def apply(f: Callable[..., jax.Array], x: jax.Array) -> jax.Array:
        return f(x)

    return custom_op(name, apply, autograd="derive") if name else custom_op(apply, autograd="derive")


def make_apply(name: str) -> CustomOpDef:
    def apply(f: Callable[..., jax.Array], x: jax.Array) -> jax.Array:
        return f(x)

    return custom_op(name, apply) if name else custom_op(apply)


def apply_by_formula(name: str) -> CustomOpDef:
    op = make_apply(name)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.f, ctx.x = inputs

    op.register_autograd(lambda ctx, g: jax.vjp(lambda f, x: f(x), ctx.f, ctx.x)[1](g), setup_context=save)
    return op


def apply_by_forward(name: str) -> CustomOpDef:
    op = make_apply(name)

    def forward(ctx: Any, f: Any, x: Any) -> Any:
        y, ctx.pull = jax.vjp(lambda f, x: f(x), f, x)
        return y

    op.register_autograd(lambda ctx, g: ctx.pull(g), forward=forward)
    return op


def apply_by_jvp(name: str) -> CustomOpDef:
    op = make_apply(name)
    op.register_jvp(lambda primals, tangents: jax.jvp(lambda f, x: f(x), primals, tangents))
    return op


MAKERS = [apply_derived, apply_by_formula, apply_by_forward, apply_by_jvp]
each_rule = pytest.mark.parametrize("make", MAKERS)


class Model:
    def __init__(self, w: Any) -> None:
        self.w = w

    def call(self, x: Any) -> Any:
        return x**2 * self.w

    def __call__(self, x: Any) -> Any:
        return self.call(x)


def read(held: Any) -> Any:
    return lambda x: x**2 * held["a"][1][0]


def use_pull(pull: Any) -> Any:
    return lambda x: pull(x**2)[0]


def around(inner: Any) -> Any:
    return lambda x: inner(x) + 0.0


def recursive(w: Any) -> Any:
    def call(x: Any, depth: int = 1) -> Any:
        return call(x * w, depth - 1) if depth else x * jnp.ones_like(w) * x / w * w / w

    return lambda x: call(x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "a closure": lambda w: lambda x: x**2 * w,
    "a default": lambda w: lambda x, w=w: x**2 * w,
    "a keyword": lambda w: partial(lambda x, *, w: x**2 * w, w=w),
    "a partial": lambda w: partial(lambda w, x: x**2 * w, w),
    "a partial pytree": lambda w: jax.tree_util.Partial(lambda w, x: x**2 * w, w),
    "a method": lambda w: Model(w).call,
    "an object": Model,
    "a container": lambda w: read({"a": [None, (w,)]}),
    "a jit": lambda w: jax.jit(lambda x: x**2 * w),
    "a checkpoint": lambda w: jax.checkpoint(lambda x: x**2 * w),
    "a map": lambda w: jax.vmap(lambda x: x**2 * w),
    "inside of another": lambda w: around(lambda x: x**2 * w),
    "a pull": lambda w: use_pull(jax.vjp(lambda x: x * w, jnp.ones_like(X))[1]),
    "a recursion": recursive,
}
each_function = pytest.mark.parametrize("function", FUNCTIONS)


def check_equal(found: Any, expected: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, expected)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "call": lambda f: f,
    "grad": lambda f: jax.grad(lambda w, x: f(w, x).sum(), (0, 1)),
    "jvp": lambda f: lambda w, x: jax.jvp(f, (w, x), (jnp.cos(w), x)),
    "vmap": lambda f: jax.vmap(f, (None, 0)),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f, (0, 1)), (None, 0)),
    "grad of vmap": lambda f: jax.grad(lambda w, x: jax.vmap(f)(w + x, x).sum(), (0, 1)),
    "hessian": lambda f: jax.hessian(lambda w, x: f(w, x * w).sum()),
    "grad of checkpoint": lambda f: jax.grad(lambda w, x: jax.checkpoint(f)(w, x).sum(), (0, 1)),
    "grad of scan": lambda f: jax.grad(
        lambda w, x: jax.lax.scan(lambda c, _: (f(w, c), None), x, None, length=3)[0].sum(), (0, 1)
    ),
    "grad of jit": lambda f: jax.grad(lambda w, x: jax.jit(f)(w, x).sum(), (0, 1)),
    "vmap of jit": lambda f: jax.vmap(jax.jit(f), (None, 0)),
}


@pytest.mark.matrix(8)
@each_rule
@pytest.mark.parametrize("name", ["functions::apply", ""], ids=["named", "local"])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_what_it_closes_over_is_an_input_of_every_transformation(
    make: Any, name: str, wrap: Any, transform: str
) -> None:
    op, change = make(name), TRANSFORMS[transform]
    found = wrap(change(lambda w, x: op(lambda x: jnp.sin(x) * w, x)))(1.5, X)
    check_equal(found, change(lambda w, x: jnp.sin(x) * w)(1.5, X))


@pytest.mark.matrix(8)
@each_rule
@each_function
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_every_callable_is_searched(make: Any, function: str, wrap: Any) -> None:
    op, take = make("functions::apply"), FUNCTIONS[function]

    def loss(w: Any, x: Any) -> Any:
        return op(take(w), x).sum()

    def due(w: Any, x: Any) -> Any:
        return (x**2 * w).sum()

    check_equal(wrap(jax.grad(loss, (0, 1)))(1.5, X), jax.grad(due, (0, 1))(1.5, X))
    check_equal(wrap(jax.vmap(jax.grad(loss), (0, None)))(X, X), jax.vmap(jax.grad(due), (0, None))(X, X))


@each_rule
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_whole_numbers_and_bools_are_inputs_without_a_gradient(make: Any, wrap: Any) -> None:
    op = make("functions::apply")

    def mixed(call: Any) -> Any:
        def run(w: Any, x: Any, n: Any, is_first: Any) -> Any:
            return call(lambda x: jnp.where(is_first, x**n * w, n * x), x)

        return run

    arguments = (X, X + 1, np.array([2, 3]), np.array([True, False]))
    for change in (lambda f: f, lambda f: jax.grad(f, (0, 1)), lambda f: jax.jacfwd(f, (0, 1))):
        found = wrap(jax.vmap(change(mixed(op))))(*arguments)
        check_equal(found, jax.vmap(change(mixed(lambda f, x: f(x))))(*arguments))


@each_rule
@pytest.mark.parametrize("check_vma", [True, False])
def test_inside_of_shard_map(make: Any, check_vma: bool) -> None:
    op = make("functions::apply")
    mesh = Mesh(np.array(jax.devices()[:2]), ("d",))
    spec = PartitionSpec("d")

    def differentiate(call: Any) -> Any:
        def run(w: Any, x: Any) -> Any:
            return jax.grad(lambda x: call(lambda x: jnp.sin(x) * w, x).sum())(x)

        shared = {"mesh": mesh, "in_specs": (PartitionSpec(), spec), "out_specs": spec}
        return jax.shard_map(run, **shared, check_vma=check_vma)

    check_equal(differentiate(op)(1.5, X), differentiate(lambda f, x: f(x))(1.5, X))


def test_a_function_that_only_a_rule_calls_is_searched() -> None:
    @custom_op("functions::scaled")
    def scaled(x: jax.Array, scale: Callable[..., jax.Array]) -> jax.Array:
        return 2 * x

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.scale = inputs[1]

    @scaled.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.scale(g), None

    def run(w):
        return jax.grad(lambda x: scaled(x, lambda g: g * w).sum())(X)

    for wrap in (lambda f: f, jax.jit, jax.vmap):
        check_equal(wrap(run)(X), wrap(lambda w: jnp.ones(2) * w)(X))


def test_functions_in_trees_and_several_of_them() -> None:
    @custom_op("functions::sum", autograd="derive")
    def total(parts: Any, last: Callable[..., jax.Array], x: jax.Array) -> jax.Array:
        return sum(part(x) * weight for part, weight in parts) + last(x)

    def run(call: Any) -> Any:
        return lambda v, w: call([(lambda x: x * v, w), (jnp.sin, 3.0)], lambda x: w * v + x, X).sum()

    def plain(parts, last, x):
        return sum(part(x) * weight for part, weight in parts) + last(x)

    check_equal(jax.grad(run(total), (0, 1))(2.0, 3.0), jax.grad(run(plain), (0, 1))(2.0, 3.0))


def test_the_kernel_gets_a_pytree_and_the_caller_keeps_its_objects() -> None:
    seen: list[Any] = []

    @custom_op("functions::look", autograd="derive")
    def look(f: Callable[..., jax.Array], x: jax.Array) -> jax.Array:
        seen.append(f)
        return f(x)

    model = Model(None)

    def run(w: Any) -> Any:
        model.w = w
        result = look(model.call, X).sum()
        assert model.w is w
        return result

    jax.grad(run)(2.0)
    look(jnp.sin, X)
    assert all(isinstance(each, jax.tree_util.Partial) for each in seen)
    assert [len(jax.tree.leaves(each)) for each in (seen[0], seen[-1])] == [1, 0]


def test_a_function_of_a_module_is_compiled_once_and_takes_the_fast_path() -> None:
    traced: list[Any] = []

    @custom_op("functions::count", autograd="derive")
    def count(f: Callable[..., jax.Array], x: jax.Array) -> jax.Array:
        traced.append(f)
        return f(x)

    for _ in range(3):
        count(jnp.sin, X)
    assert len(traced) == 1
    count(jnp.cos, X)
    assert len(traced) == 2


@each_rule
@pytest.mark.parametrize(
    "use",
    [
        lambda op, f: op(f, X),
        lambda op, f: jax.jit(lambda x: op(f, x))(X),
        lambda op, f: jax.grad(lambda x: op(f, x).sum())(X),
        lambda op, f: jax.jit(jax.grad(lambda x: op(f, x).sum()))(X),
        lambda op, f: jax.jvp(lambda x: op(f, x), (X,), (X,)),
        lambda op, f: jax.vmap(lambda x: op(f, x))(X),
        lambda op, f: op(f, oplib.tensor(X, requires_grad=True)).sum().backward(),
    ],
    ids=["call", "jit", "grad", "jit of grad", "jvp", "vmap", "tape"],
)
def test_the_op_keeps_no_function_alive(make: Any, use: Any) -> None:
    op = make("functions::apply")
    alive = []
    for factor in (2.0, 3.0, 4.0):

        def f(x, factor=factor):
            return jnp.sin(x) * factor

        alive.append(weakref.ref(f))
        use(op, f)
    del f
    gc.collect()
    gc.collect()  # JAX's caches drop an entry after its key
    assert [ref() for ref in alive] == [None] * 3


@pytest.mark.slow
def test_nor_does_it_keep_those_of_hundreds_of_traces() -> None:
    op, alive = apply_by_formula("functions::apply"), []

    def loss(w: Any) -> Any:
        def f(x):
            return x * w

        alive.append(weakref.ref(f))
        return op(f, X).sum()

    for _ in range(300):
        jax.make_jaxpr(lambda w: jax.grad(loss)(w))(2.0)
    gc.collect()
    gc.collect()
    assert len(alive) == 300
    assert sum(ref() is not None for ref in alive) == 0


@pytest.mark.filterwarnings("ignore:.* a second op of this name")
def test_a_recorded_graph_keeps_what_its_backward_needs() -> None:
    for make in MAKERS:
        x = oplib.tensor(X, requires_grad=True)
        y = make("functions::apply")(lambda x: jnp.sin(x) * 3.0, x).sum()
        gc.collect()
        (grad,) = oplib.autograd.grad(y, x, create_graph=True)
        del y
        gc.collect()
        check_equal(grad.detach().array, 3 * np.cos(X))
        check_equal(oplib.autograd.grad(grad.sum(), x)[0].array, -3 * np.sin(X))


@each_rule
@pytest.mark.parametrize("plain", [True, False])
def test_a_tensor_with_a_history_in_a_closure_is_refused(make: Any, plain: bool) -> None:
    op = make("functions::apply")
    t = oplib.tensor(X, requires_grad=True)
    held = {"t": t * 2}
    oplib.config.compile_kernels = not plain
    try:
        for f in (
            lambda x: x * t.array,
            lambda x: x * held["t"].array,
            partial(lambda t, x: x * t.array, t),
            lambda x: x * WEIGHT.array,
        ):
            with pytest.raises(
                ArgumentError,
                match=r"functions::apply: argument 'f' .* history.* Pass the Tens.*Partial\(lambda w, x",
            ):
                op(f, oplib.tensor(X))
    finally:
        oplib.config.compile_kernels = True


@pytest.mark.parametrize("where", ["an enclosing function", "a global variable"])
def test_a_tensor_without_a_history_in_a_closure_is_refused_where_it_is_compiled(where: str) -> None:
    op, own = apply_derived("functions::apply"), oplib.tensor(X)
    f = (lambda x: x * own) if where == "an enclosing function" else (lambda x: x * FIXED)
    told = (
        r"functions::apply: the kernel or argument 'f' reads a Tensor from outside while it is traced\. Got "
        r"f\d+\[2\].* jax\.tree_util\.Partial\(lambda w, x: \.\.\., w\)"
    )
    with pytest.raises(TracingError, match=told):
        op(f, oplib.tensor(X))


@pytest.mark.parametrize("plain", [True, False])
def test_a_partial_carries_a_tensor_and_its_gradient(plain: bool) -> None:
    op = apply_derived("functions::apply")
    weight, x = oplib.tensor(3 * X, requires_grad=True), oplib.tensor(X, requires_grad=True)
    oplib.config.compile_kernels = not plain
    try:
        op(jax.tree_util.Partial(lambda w, x: w * x**2, weight), x).sum().backward()
    finally:
        oplib.config.compile_kernels = True
    check_equal(weight.grad.array, X**2)
    check_equal(x.grad.array, 6 * X**2)


def test_a_global_name_that_a_function_uses_for_an_attribute_is_no_variable() -> None:
    op = apply_derived("functions::apply")
    held = type("Held", (), {"WEIGHT": 3.0})()
    assert op(lambda x: x * held.WEIGHT, oplib.tensor(X)).tolist() == [3.0, 6.0]


def test_one_that_an_object_holds_is_refused_where_it_is_read() -> None:
    op = apply_derived("functions::apply")
    model = Model(oplib.tensor(X, requires_grad=True))
    with pytest.raises(TracingError, match=r"reads a Tensor from outside.* Make it an argument of the op"):
        op(model.call, oplib.tensor(X))
    model.call = lambda x: x * 2  # reads no Tensor
    assert op(model.call, X).tolist() == [2.0, 4.0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* a second op of this name")
def test_opcheck_takes_an_op_with_a_function() -> None:
    for make in MAKERS:
        op = make("functions::apply")
        found = opcheck(op, (lambda x: jnp.sin(x) * 3.0, jnp.asarray(X)))
        assert {str(result).partition(":")[0] for result in found.values()} <= {"SUCCESS", "SKIPPED"}
        assert found["test_forward_mode"] == "SUCCESS"
        assert (found["test_gradients"] == "SUCCESS") == (make is not apply_by_jvp)
