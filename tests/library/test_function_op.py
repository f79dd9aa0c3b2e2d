"""A Function has, in each transformation of JAX, what an op with the same rules has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.sharding import PartitionSpec as P

import oplib
from oplib import Tensor
from oplib.autograd import Function
from oplib.autograd.function import once_differentiable
from oplib.errors import AutogradError, MissingRuleError
from tests.library.batching_and_sharding.shards import make_mesh

pytestmark = pytest.mark.spec("D.40")
Method = Callable[..., Any]
X = jnp.array([1.0, -2.0, 3.0, 0.5])
ROWS = jnp.stack([X, 2 * X, X - 1])


# All of these compute x², and all their rules say 6x. JAX's own derivative would be 2x.


class Plain(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 6 * ctx.saved_tensors[0]


class Subclass(Plain):
    @staticmethod
    def forward(ctx, x):
        return Plain.forward(ctx, x)


class WithSetup(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def vjp(ctx, g):
        return g * 6 * ctx.saved_tensors[0]


class OnArrays(Function):
    @staticmethod
    def forward(ctx, x: jax.Array):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 6 * ctx.saved_tensors[0]


class OnArraysWithSetup(Function):
    @staticmethod
    def forward(x: jax.Array, power: int = 2) -> jax.Array:
        return x**power

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return g * 6 * ctx.saved_tensors[0], None

    @staticmethod
    def jvp(ctx, tangent, power):
        assert power is None
        return tangent * 6 * ctx.saved_tensors[0]

    @staticmethod
    def vmap(info, in_dims, x, power):
        return x**power, in_dims[0]


class WithJvp(WithSetup):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0], None)

    @staticmethod
    def jvp(ctx, tangent):
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return tangent * 6 * x


class WithVmap(WithSetup):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x):
        assert isinstance(x, Tensor)
        assert x.shape[in_dims[0]] == info.batch_size
        return x * x, in_dims[0]


class Lists(Function):
    @staticmethod
    def forward(ctx, xs, tree, factor=1.0, *, shift=0.0):
        ctx.save_for_backward(xs[0], None)
        ctx.kept = {"factor": factor, "xs": [xs[1], "text"]}
        return [xs[0] * xs[1] * factor + shift, tree["a"]], "text", None, xs[0] > 0

    @staticmethod
    def backward(ctx, grads, text, nothing, mask):
        _, absent = ctx.saved_tensors
        assert absent is None
        assert (text, nothing, mask) == (None, None, None)
        assert ctx.kept["xs"][1] == "text"
        ctx.seen = True
        return [grads[0] * 6 * ctx.kept["xs"][0] * ctx.kept["factor"], None], {"a": None}, None, None


class Constant(Function):
    """The second result is marked; backward would count its gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        marked = x * 5
        ctx.mark_non_differentiable(marked)
        return x * x, marked

    @staticmethod
    def backward(ctx, g, constant):
        return g * 6 * ctx.x + constant


class Unmaterialized(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x * x, x * 7

    @staticmethod
    def backward(ctx, g, other):
        return None if g is None else g * 6 * ctx.saved_tensors[0]


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * 6 * ctx.saved_tensors[0]


class OnceOnArrays(OnArrays):
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * 6 * ctx.saved_tensors[0]


class Broadcast(Function):
    """The gradient is summed and cast to the input."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return (g * 3 * ctx.saved_tensors[0]).expand(2, *g.shape)


def apply_lists(x: Any) -> Any:
    results, text, nothing, mask = Lists.apply([x, x], {"a": x}, shift=0.0)
    assert (text, nothing, mask.dtype) == ("text", None, jnp.bool_)
    return results[0]


def of_tensor(function: Method) -> Method:
    return lambda x: function(Tensor.from_array(x)).array


FORMS: dict[str, Method] = {
    "ctx": Plain.apply,
    "setup_context": WithSetup.apply,
    "arrays": OnArrays.apply,
    "arrays, setup_context": OnArraysWithSetup.apply,
    "jvp": WithJvp.apply,
    "vmap": WithVmap.apply,
    "lists": apply_lists,
    "constant": lambda x: Constant.apply(x)[0],
    "unmaterialized": lambda x: Unmaterialized.apply(x)[0],
    "subclass": Subclass.apply,
    "once": Once.apply,
    "once, arrays": OnceOnArrays.apply,
    "summed": Broadcast.apply,
    "Tensor": of_tensor(Plain.apply),
    "Tensors in lists": of_tensor(apply_lists),
    "annotated on a Tensor": of_tensor(OnArrays.apply),
}


def make_op() -> Method:
    @oplib.custom_op
    def squared(x: jax.Array) -> jax.Array:
        return x * x

    squared.register_autograd(
        lambda ctx, g: g * 6 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return squared


def make_custom_vjp() -> Method:
    function = jax.custom_vjp(lambda x: x * x)
    function.defvjp(lambda x: (x * x, x), lambda x, g: (g * 6 * x,))
    return function


def total(f: Method) -> Method:
    return lambda x: (f(x) * jnp.arange(1.0, x.size + 1).reshape(x.shape)).sum()


def on_mesh(f: Method, *, check_vma: bool) -> Method:
    return jax.shard_map(
        f, mesh=make_mesh(shape=(2,)), in_specs=P("i"), out_specs=P("i"), check_vma=check_vma
    )


def through_scan(f: Method) -> Method:
    return lambda x: jax.lax.scan(lambda carry, each: (carry + f(each), f(each)), 0.0, x)


REVERSE: dict[str, Callable[[Method], Any]] = {
    "value": lambda f: f(X),
    "jit": lambda f: jax.jit(f)(X),
    "grad": lambda f: jax.grad(total(f))(X),
    "vjp": lambda f: jax.vjp(f, X)[1](X),
    "jacrev": lambda f: jax.jacrev(f)(X),
    "jit of grad": lambda f: jax.jit(jax.grad(total(f)))(X),
    "grad of jit": lambda f: jax.grad(total(jax.jit(f)))(X),
    "grad of grad": lambda f: jax.grad(lambda x: jax.grad(total(f))(x).sum())(X),
    "vmap": lambda f: jax.vmap(f)(ROWS),
    "vmap of columns": lambda f: jax.vmap(f, in_axes=1, out_axes=1)(ROWS),
    "nested vmap": lambda f: jax.vmap(jax.vmap(f))(ROWS),
    "vmap of grad": lambda f: jax.vmap(jax.grad(total(f)))(ROWS),
    "grad of vmap": lambda f: jax.grad(total(jax.vmap(f)))(ROWS),
    "scan": lambda f: through_scan(f)(X),
    "grad of scan": lambda f: jax.grad(lambda x: through_scan(f)(x)[0])(X),
    "while_loop": lambda f: jax.lax.while_loop(lambda x: jnp.abs(x).max() < 50, f, X),
    "grad of cond": lambda f: jax.grad(total(lambda x: jax.lax.cond(x[0] > 0, f, jnp.sin, x)))(X),
    "grad of map": lambda f: jax.grad(total(lambda x: jax.lax.map(f, x)))(X),
    "checkpoint": lambda f: jax.grad(total(jax.checkpoint(f)))(X),
    "checkpoint in jit": lambda f: jax.jit(jax.grad(total(jax.checkpoint(jax.jit(f)))))(X),
    "export": lambda f: jax.export.export(jax.jit(jax.grad(total(f))))(X).call(X),
    "checkify": lambda f: checkify.checkify(f)(X)[1],
    "grad of checkify": lambda f: jax.grad(total(lambda x: checkify.checkify(f)(x)[1]))(X),
    "eval_shape": lambda f: jax.eval_shape(f, X),
    "numpy": lambda f: jax.grad(total(f))(jnp.asarray(np.array(X))),
    "shard_map": lambda f: jax.grad(total(on_mesh(f, check_vma=True)))(X),
    "shard_map, unchecked": lambda f: jax.grad(total(on_mesh(f, check_vma=False)))(X),
}
FORWARD: dict[str, Callable[[Method], Any]] = {
    "jvp": lambda f: jax.jvp(f, (X,), (X + 1,)),
    "jacfwd": lambda f: jax.jacfwd(f)(X),
    "hessian": lambda f: jax.hessian(total(f))(X),
    "linearize": lambda f: jax.linearize(f, X)[1](X + 1),
    "linear_transpose": lambda f: jax.linear_transpose(lambda t: jax.jvp(f, (X,), (t,))[1], X)(X),
    "jit of jvp": lambda f: jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(X),
    "jvp of jit": lambda f: jax.jvp(jax.jit(f), (X,), (X,)),
    "jvp of jvp": lambda f: jax.jvp(lambda x: jax.jvp(f, (x,), (x + 1,))[1], (X,), (X,)),
    "jvp of grad": lambda f: jax.jvp(jax.grad(total(f)), (X,), (X,)),
    "vmap of jvp": lambda f: jax.vmap(lambda x: jax.jvp(f, (x,), (x,)))(ROWS),
    "jvp of vmap": lambda f: jax.jvp(jax.vmap(f), (ROWS,), (ROWS,)),
    "jvp of scan": lambda f: jax.jvp(through_scan(f), (X,), (X,)),
    "jvp of checkpoint": lambda f: jax.jvp(jax.checkpoint(f), (X,), (X,)),
    "jvp of shard_map": lambda f: jax.jvp(on_mesh(f, check_vma=True), (X,), (X,)),
}
SECOND = {"grad of grad", "hessian", "jvp of jvp", "jvp of grad"}


def same(found: Any, expected: Any) -> None:
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found, expected)


@pytest.mark.matrix(8)
@pytest.mark.devices(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("transform", [*REVERSE, *FORWARD])
def test_a_function_is_the_op_with_its_rules(transform: str, form: str) -> None:
    compute = (REVERSE | FORWARD)[transform]
    if form.startswith("once") and transform in SECOND:
        with pytest.raises(AutogradError, match="differentiate twice a function that was marked"):
            compute(FORMS[form])
        return
    if transform == "eval_shape":
        assert compute(FORMS[form]) == compute(make_op())
        return
    same(compute(FORMS[form]), compute(make_op()))


@pytest.mark.matrix(4)
@pytest.mark.devices(2)
@pytest.mark.parametrize("transform", [name for name in REVERSE if name != "eval_shape"])
def test_the_op_is_jax_s_custom_vjp(transform: str) -> None:
    same(REVERSE[transform](Plain.apply), REVERSE[transform](make_custom_vjp()))


# Mixed calls, errors, and what runs when --------------------------------------------------------


class Product(Function):
    """The gradients are 10 and 100 times those of JAX, so that a result tells which rule ran."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * 10, g * x * 100


@pytest.mark.parametrize("requires_grad", [False, True])
def test_jax_differentiates_the_array_of_a_mixed_call(requires_grad: bool) -> None:
    leaf = oplib.tensor(np.asarray(X), requires_grad=requires_grad)

    def loss(y: Any) -> Any:
        result = Product.apply(leaf, y)
        assert type(result) is Tensor
        assert result.requires_grad is requires_grad
        return result.array.sum()

    for wrap in (lambda f: f, jax.jit):
        same(wrap(jax.grad(loss))(X), 100 * X)


def test_the_array_of_a_mixed_call_is_a_constant_for_the_tape() -> None:
    leaf = oplib.tensor(np.asarray(X), requires_grad=True)
    Product.apply(leaf, X + 1).sum().backward()
    same(leaf.grad.array, 10 * (X + 1))


def test_an_array_cannot_be_written() -> None:
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x, *others):
            ctx.mark_dirty(x)
            return x.mul_(2.0)

    for others in ((), (oplib.ones(4),)):
        with pytest.raises(AutogradError, match="Doubled: mark_dirty was called, and an argument is an arr"):
            Doubled.apply(X, *others)

    class DoubledArray(Function):
        @staticmethod
        def forward(ctx, x: jax.Array):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(AutogradError, match="mark_dirty: arrays are not written"):
        DoubledArray.apply(X)


def test_a_missing_rule_is_named_and_never_derived_from_forward() -> None:
    for function in (
        type("Bare", (Function,), {"forward": staticmethod(lambda ctx, x: x * x)}),
        type("BareArray", (Function,), {"forward": staticmethod(bare_on_arrays)}),
    ):
        for differentiate in (jax.grad, jax.jacfwd):
            with pytest.raises(MissingRuleError, match=f"{function.__name__}Backward: its Function has no"):
                differentiate(total(function.apply))(X)
        same(jax.jit(jax.vmap(function.apply))(ROWS), ROWS * ROWS)


def bare_on_arrays(ctx: Any, x: jax.Array) -> Any:
    return x * x


@pytest.mark.spec("D.49")
def test_forward_is_told_what_jax_differentiates() -> None:
    class Asked(Function):
        @staticmethod
        def forward(ctx, x, y):
            asked.append((x.requires_grad, y.requires_grad, ctx.needs_input_grad))
            ctx.by_x = x.requires_grad
            if y.requires_grad:
                ctx.save_for_backward(x)
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g * 2 if ctx.by_x else None, g * 3 * ctx.saved_tensors[0] if ctx.saved_tensors else None

    asked: list[Any] = []
    for wrap in (lambda f: f, jax.jit, of_tensors):
        asked.clear()
        apply = wrap(Asked.apply)
        cells = [
            (both(apply), 2 + 3 * X, (True, True)),
            (partial(apply, y=X), 2 + 0 * X, (True, False)),
            (partial(apply, X), 3 * X, (False, True)),
        ]
        for function, expected, flags in cells:
            same(jax.grad(lambda x, f=function: f(x).sum())(X), expected)
            assert asked[-1] == (*flags, flags)
    Asked.apply(X, X)
    assert asked[-1] == (False, False, (False, False))
    slope = jax.grad(lambda x: jax.lax.scan(lambda c, a: (c + Asked.apply(a, a), None), 0.0, x)[0])(X)
    same(slope, 2 + 3 * X)


def both(function: Method) -> Method:
    return lambda x: function(x, x)


def of_tensors(function: Method) -> Method:
    return lambda x, y: function(Tensor.from_array(x), Tensor.from_array(y)).array


def test_a_function_is_plain_python_that_runs_once_in_each_trace() -> None:
    class Counted(Plain):
        @staticmethod
        def forward(ctx, x):
            runs.append(x)
            return Plain.forward(ctx, x) * factor

    runs: list[Any] = []
    factor = oplib.ones(4)
    cells: dict[str, Callable[[], Any]] = {
        "call": lambda: Counted.apply(X),
        "jit": lambda: jax.jit(Counted.apply)(X),
        "grad": lambda: jax.grad(total(Counted.apply))(X),
        "jit of grad": lambda: jax.jit(jax.grad(total(Counted.apply)))(X),
        "vmap": lambda: jax.vmap(Counted.apply)(ROWS),
    }
    for name, run in cells.items():
        runs.clear()
        run()
        assert len(runs) == 1, name
    factor.mul_(2)  # another trace reads it again
    same(jax.jit(lambda x: Counted.apply(x))(X), 2 * X * X)


def test_a_function_with_annotations_is_traced_once_for_each_signature() -> None:
    class Counted(Function):
        @staticmethod
        def forward(x: jax.Array, power: int):
            runs.append(x)
            return x**power

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.power = inputs[1]

        @staticmethod
        def backward(ctx, g):
            runs.append(g)
            return g * ctx.power * ctx.saved_tensors[0] ** (ctx.power - 1), None

    runs: list[Any] = []
    held = Counted.apply  # as in user code: cube = Cube.apply
    for apply in (held, held, Counted.apply):
        leaf = oplib.tensor(np.asarray(X), requires_grad=True)
        apply(leaf, power=3).sum().backward()
        same(leaf.grad.array, 3 * X**2)
    assert len(runs) == 2
    assert all(isinstance(value, jax.core.Tracer) for value in runs)


@pytest.mark.spec("D.41")
@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({"x": jax.Array}, "Mixed: parameter 'y' of forward has no annotation, and another is annotated jax"),
        ({"x": jax.Array, "y": Tensor}, "Mixed: its forward has annotations of two kinds"),
        ({"x": "jax.Array"}, "Mixed: parameter 'y' of forward has no annotation"),
    ],
)
def test_mixed_annotations_are_refused_when_the_class_is_made(annotations: Any, text: str) -> None:
    def forward(ctx, x, y):
        return x * y

    forward.__annotations__ = annotations
    with pytest.raises(oplib.errors.SchemaInferenceError, match=text):
        type("Mixed", (Function,), {"forward": staticmethod(forward)})


@pytest.mark.spec("D.41")
def test_other_annotations_give_tensors() -> None:
    class Annotated(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, name: str, other: unknown_module.Type = None) -> Tensor:  # noqa: F821
            assert type(x) is Tensor
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3, None

    same(jax.grad(lambda x: Annotated.apply(x, "a").sum())(X), 3 + 0 * X)


def test_a_subclass_of_a_function_on_arrays_has_its_own_rules() -> None:
    OnArrays.apply(X)
    tripled = type("Tripled", (OnArrays,), {"backward": staticmethod(lambda ctx, g: g * 3)})
    same(jax.grad(total(tripled.apply))(X), 3 * jnp.arange(1.0, 5.0))

    class OnTensors(OnArrays):
        @staticmethod
        def forward(ctx, x):
            assert type(x) is Tensor
            ctx.save_for_backward(x)
            return x * 5

    same(OnTensors.apply(X), 5 * X)


@pytest.mark.parametrize("where", [jax.jit, lambda f: lambda a: jax.jit(jax.vmap(f))(a[None])[0]])
def test_a_function_may_close_over_a_traced_value(where: Any) -> None:
    def loss(scale: Any, x: Any) -> Any:
        class Scaled(Function):
            @staticmethod
            def forward(ctx, x):
                return x * Tensor.from_array(scale)

            @staticmethod
            def backward(ctx, g):
                return g * 3 * Tensor.from_array(scale)

        return jax.grad(lambda x: Scaled.apply(x).sum())(x)

    same(where(lambda a: loss(a, a))(X), 3 * X)


def test_the_first_call_of_a_function_on_arrays_may_be_in_a_program() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx, x: jax.Array) -> jax.Array:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0] ** 2

    @oplib.jit
    def find(x: Tensor) -> Tensor:
        return oplib.autograd.grad(Cube.apply(x).sum(), x)[0]

    for _ in range(2):
        same(find(Tensor.from_array(X).requires_grad_()).array, 3 * X**2)
    assert find.compilations == 1


def test_a_trace_does_not_read_the_annotations_of_a_rule(monkeypatch):
    monkeypatch.setattr("oplib.library.derivatives.formula.infer_kind", None)
    assert jax.grad(lambda v: Plain.apply(v).sum())(jnp.array([1.0, 2.0])).tolist() == [6.0, 12.0]


class AddTwice(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.mark_dirty(a)
        a.add_(1.0)
        return a.add_(b)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


@pytest.mark.spec("D.44")
@pytest.mark.parametrize(
    ("take", "told"),
    [
        (lambda d: (d[:1].expand(3), oplib.ones(3)), "refers to a single memory location"),
        (lambda d: (d, d[0]), "an argument shares memory with a written one"),
        (lambda d: (d[1:], d[:2]), "an argument shares memory with a written one"),
        (lambda d: (d.detach(), d), "an argument shares memory with a written one"),
    ],
)
def test_a_write_of_a_function_in_a_trace_is_refused_where_memory_is_shared(take, told):
    def run(array):
        d = Tensor.from_array(array).clone()
        with pytest.raises(AutogradError, match=told):
            AddTwice.apply(*take(d))
        return d.array

    assert jax.jit(run)(jnp.arange(3.0)).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.spec("D.44")
def test_a_write_of_a_function_beside_what_it_reads_works_in_a_trace():
    def run(array):
        d = Tensor.from_array(array).clone()
        AddTwice.apply(d[1:], d[0])
        return d.array

    assert jax.jit(run)(jnp.arange(3.0)).tolist() == run(jnp.arange(3.0)).tolist() == [0.0, 2.0, 3.0]


@pytest.mark.spec("D.44")
@pytest.mark.parametrize("take", [lambda leaf: leaf, lambda leaf: leaf[1:]])
def test_a_write_of_a_function_into_a_leaf_is_refused_in_a_body(take):
    def body(carry, x):
        target = take((x * 1.0).detach().requires_grad_())
        AddTwice.apply(target, oplib.ones(()))
        return carry, target

    with pytest.raises(AutogradError, match="leaf Variable that requires grad"):
        oplib.scan(body, oplib.tensor(0.0), oplib.ones(2, 3))
