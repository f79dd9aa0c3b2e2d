"""A jvp rule may apply its op to tangents: the call is transposed as its kernel is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas

import oplib
from oplib.autograd import Function
from oplib.errors import AutogradError
from oplib.library import CustomOpDef, custom_op
from oplib.library.registration.registry import registry

X, W = jnp.array([0.3, -0.7, 1.1]), jnp.array([1.5, 2.0, -1.0])
MATRIX = jnp.array([[2.0, 0.3, 0.1], [0.3, 3.0, 0.2], [0.1, 0.2, 1.0]])

pytestmark = pytest.mark.spec("D.42")


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    before = registry.save()
    yield
    registry.restore(before)


def product_rule(op: Any, other: Any = None) -> Callable[[Any, Any], Any]:
    """The rule of a bilinear op; it applies the op, or another one that computes the same, to tangents."""
    other = other or op
    return lambda p, t: (op(*p), other(t[0], p[1]) + other(p[0], t[1]))


def make_product() -> Any:
    @custom_op("tangents::product")
    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    product.register_jvp(product_rule(product))
    return product


def make_einsum() -> Any:
    @custom_op("tangents::einsum")
    def einsum(formula: str, x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.einsum(formula, x, w)

    @einsum.register_jvp
    def push(p: Any, t: Any) -> Any:
        formula, x, w = p
        return einsum(*p), einsum(formula, t[1], w) + einsum(formula, x, t[2])

    return lambda x, w: einsum("...i,...i->...i", x, w)


def make_pair() -> Any:
    """Makes two ops whose rules call each other."""

    @custom_op("tangents::first")
    def first(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    @custom_op("tangents::second")
    def second(x: jax.Array, w: jax.Array) -> jax.Array:
        return w * x

    first.register_jvp(product_rule(first, second))
    second.register_jvp(product_rule(second, first))
    return first


def make_sum() -> Any:
    """Makes a product whose rule applies another op to tangents, of which one may be missing."""

    @custom_op("tangents::sum")
    def add(x: jax.Array, w: jax.Array) -> jax.Array:
        return x + w

    @custom_op("tangents::summed")
    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    add.register_jvp(lambda p, t: (add(*p), add(*t)))
    product.register_jvp(lambda p, t: (product(*p), add(t[0] * p[1], p[0] * t[1])))
    return product


def make_unary() -> Any:
    @custom_op("tangents::unary")
    def unary(x: jax.Array) -> jax.Array:
        return 3 * x

    unary.register_jvp(lambda p, t: (unary(p[0]), unary(t[0])))
    return lambda x, w: unary(x) * w / 3


def make_several_results() -> Any:
    """Makes an op of which one result does not depend on the first argument."""

    @custom_op("tangents::several")
    def several(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x * w, 2 * w

    @several.register_jvp
    def push(p: Any, t: Any) -> Any:
        (x, w), (dx, dw) = p, t
        return several(x, w), (several(dx, w)[0] + several(x, dw)[0], several(x, dw)[1])

    return lambda x, w: several(x, w)[0] + several(w, w)[1] - 2 * w


def make_uncompiled() -> Any:
    @custom_op("tangents::uncompiled", compile=False)
    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    product.register_jvp(product_rule(product))
    return product


def make_on_tensors() -> Any:
    @custom_op("tangents::on_tensors")
    def product(x: oplib.Tensor, w: oplib.Tensor) -> oplib.Tensor:
        return x * w

    product.register_jvp(product_rule(product))
    return product


def make_local() -> Any:
    @custom_op
    def product(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    product.register_jvp(product_rule(product))
    return product


def make_function() -> Any:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: jax.Array, w: jax.Array) -> jax.Array:
            ctx.save_for_forward(x, w)
            return x * w

        @staticmethod
        def jvp(ctx: Any, dx: Any, dw: Any) -> Any:
            x, w = ctx.saved_tensors
            return Product.apply(dx, w) + Product.apply(x, dw)

    return Product.apply


MAKERS = [
    make_product,
    make_einsum,
    make_pair,
    make_sum,
    make_unary,
    make_several_results,
    make_uncompiled,
    make_on_tensors,
    make_local,
    make_function,
]


def grad(f: Any) -> Any:
    return jax.grad(lambda x, w: (f(x, w) * f(x, x)).sum(), (0, 1))


def fold(f: Any) -> Any:
    return lambda x, w: jax.lax.scan(lambda c, v: (f(c, v), c), x, jnp.stack([w, x, w]))[0].sum()


def share(f: Any) -> Any:
    """Maps over parts of a mesh, in which one operand is replicated."""
    mesh, spec = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",)), jax.sharding.PartitionSpec
    mapped = jax.shard_map(f, mesh=mesh, in_specs=(spec("i"), spec()), out_specs=spec("i"))
    return lambda x, w: mapped(jnp.stack([x, w]), w).sum()


RUNS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: grad(f)(X, W),
    "grad in jit": lambda f: jax.jit(grad(f))(X, W),
    "mapped grad": lambda f: jax.vmap(grad(f), (0, None))(jnp.stack([X, W]), W),
    "grad of a map": lambda f: jax.grad(lambda w: jax.vmap(f, (0, None))(jnp.stack([X, W]), w).sum())(W),
    "grad of grad": lambda f: jax.grad(lambda x: (grad(f)(x, W)[1] ** 2).sum())(X),
    "jvp of grad": lambda f: jax.jvp(grad(f), (X, W), (W, X)),
    "hessian": lambda f: jax.hessian(lambda x, w: f(f(x, w), x).sum(), (0, 1))(X, W),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(f))(X, W),
    "third": lambda f: jax.jacfwd(jax.jacrev(jax.jacfwd(lambda x: f(x, x).prod())))(X),
    "in scan": lambda f: jax.grad(fold(f), (0, 1))(X, W),
    "in a checkpoint": lambda f: jax.grad(jax.checkpoint(fold(f)))(X, W),
    "in shard_map": lambda f: jax.grad(share(f), (0, 1))(X, W),
    "linearize": lambda f: jax.linearize(f, X, W)[1](W, X),
    "linear_transpose": lambda f: jax.linear_transpose(lambda x: f(x, W), X)(W),
}


@pytest.mark.matrix(7)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", RUNS)
def test_derivatives_are_those_of_the_product(name: str, make: Callable[[], Any]) -> None:
    found, due = (RUNS[name](function) for function in (make(), jnp.multiply))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(due), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "oplib.jit"])
def test_the_tape_finds_the_same_gradients(make: Callable[[], Any], compiled: bool) -> None:
    op = make()

    def find(x: oplib.Tensor, w: oplib.Tensor) -> Any:
        return oplib.autograd.grad((op(x, w) * op(x, x)).sum(), (x, w))

    tensors = [oplib.Tensor.from_array(value).requires_grad_() for value in (X, W)]
    found = (oplib.jit(find) if compiled else find)(*tensors)
    for one, other in zip(found, grad(jnp.multiply)(X, W), strict=True):
        np.testing.assert_allclose(one.array, other, rtol=1e-5)


def make_refused(kernel: Any, name: str = "tangents::refused") -> CustomOpDef:
    op = custom_op(name, kernel)
    op.register_jvp(lambda p, t: (op(*p), op(t[0], p[1])))
    return op


def square(x: jax.Array, w: jax.Array) -> jax.Array:
    return x**2 * w


def shift(x: jax.Array, w: jax.Array) -> jax.Array:
    return x + 1.0


def ignore(x: jax.Array, w: jax.Array) -> jax.Array:
    return 2 * w


def run_pallas(x: jax.Array, w: jax.Array) -> jax.Array:
    def double(source: Any, target: Any) -> None:
        target[...] = 2 * source[...]

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pallas.pallas_call(double, out_shape=shape, interpret=True)(x) * w


def call_ffi(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.ffi.ffi_call("double_it", jax.ShapeDtypeStruct(x.shape, x.dtype))(x) * w


def call_back(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.pure_callback(lambda v: 2 * v, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * w


def run_on_the_host(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return 2 * x * w


REFUSED: dict[Any, str] = {
    square: "integer_pow",
    shift: "add",
    ignore: "a result does not depend on it",
    run_pallas: "pallas_call",
    call_ffi: "ffi_call",
    call_back: "pure_callback",
    run_on_the_host: "host_call",
}


@pytest.mark.parametrize("kernel", REFUSED, ids=lambda kernel: kernel.__name__)
def test_a_call_that_is_not_linear_or_has_no_transpose_names_op_and_operand(kernel: Any) -> None:
    op = make_refused(kernel)
    if kernel is run_on_the_host:
        op.register_fake(lambda x, w: jax.ShapeDtypeStruct(x.shape, x.dtype))
    with pytest.raises(
        AutogradError,
        match=rf"^tangents::refused: .* transposed in operand 'x': '?{REFUSED[kernel]}.*linear=True",
    ):
        jax.make_jaxpr(jax.grad(lambda x: op(x, W).sum()))(X)
    pushed = jax.make_jaxpr(lambda x: jax.jvp(lambda v: op(v, W), (x,), (x,)))(X)  # forward mode is there
    assert pushed.out_avals[1].shape == X.shape


def test_operands_in_which_a_call_is_not_linear_together_are_named() -> None:
    product = make_product()
    square = custom_op("tangents::square", lambda x: x**2, schema="(Tensor x) -> Tensor")
    square.register_jvp(lambda p, t: (p[0] ** 2, product(t[0], t[0])))
    with pytest.raises(AutogradError, match=r"^tangents::product: .* in operand 'x' and 'w': 'mul'"):
        jax.grad(lambda x: square(x).sum())(X)


def test_another_op_without_a_rule_is_refused_as_before() -> None:
    @custom_op("tangents::bare")
    def bare(x: jax.Array) -> jax.Array:
        return 2 * x

    op = custom_op("tangents::caller", lambda x: 2 * x, schema="(Tensor x) -> Tensor")
    op.register_jvp(lambda p, t: (bare(p[0]), bare(t[0])))
    with pytest.raises(oplib.errors.MissingRuleError, match=r"tangents::bare: .*no autograd formula"):
        jax.grad(lambda x: op(x).sum())(X)
