"""Ops that are declared linear: every derivative follows from kernel and adjoint."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.autograd.forward_ad as fw
from oplib import Tensor
from oplib.errors import AutogradError, MissingRuleError, RegistrationValueError
from oplib.library import custom_op

from .linear_operators import MATRIX, X, make_operators

OPERATORS = make_operators()


def make_loss(function: Callable[..., Any]) -> Callable[..., Any]:
    """A real function with derivatives of each order."""

    def loss(*point: Any) -> Any:
        results = function(*point)
        results = results if isinstance(results, tuple) else (results,)
        return sum((abs(y) ** 2).sum() + (y.real**3).sum() * 0.1 for y in results)

    return loss


def along(point: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(jnp.roll(value, 1) * 0.5 + 0.25 for value in point)


def push(loss: Any, point: Any) -> Any:
    return jax.jvp(loss, point, along(point))[1]


def pull(loss: Any, point: Any) -> Any:
    return jax.grad(loss, argnums=tuple(range(len(point))))(*point)


TRANSFORMATIONS = {
    "jvp": push,
    "grad": pull,
    "jvp of jvp": lambda loss, point: push(lambda *at: push(loss, at), point),
    "jvp of grad": lambda loss, point: push(lambda *at: pull(loss, at), point),
    "grad of jvp": lambda loss, point: pull(lambda *at: push(loss, at), point),
    "grad of grad": lambda loss, point: pull(lambda *at: abs(pull(loss, at)[0]).sum(), point),
    "jvp of grad of jvp": lambda loss, point: push(lambda *at: pull(lambda *at: push(loss, at), at), point),
    "vmap of jvp of grad": lambda loss, point: jax.vmap(
        lambda s: push(lambda *at: pull(loss, at), tuple(s * value for value in point))
    )(jnp.arange(3.0)),
    "jvp of grad of vmap": lambda loss, point: push(
        lambda *at: pull(lambda *at: jax.vmap(loss)(*(jnp.stack([v, 2 * v]) for v in at)).sum(), at), point
    ),
    "checkpoint": lambda loss, point: push(lambda *at: pull(jax.checkpoint(loss), at), point),
    "scan": lambda loss, point: pull(
        lambda *at: jax.lax.scan(lambda c, s: (c + loss(*(s * v for v in at)), None), 0.0, jnp.arange(3.0))[
            0
        ],
        point,
    ),
    "linearize": lambda loss, point: jax.linearize(loss, *point)[1](*along(point)),
    "some arguments": lambda loss, point: push(
        lambda *at: pull(lambda *at: loss(*at, *point[1:]), at), point[:1]
    ),
}


@pytest.mark.matrix(8)
@pytest.mark.spec("D.55")
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_linear_op_is_differentiated_as_the_function_itself(name: str, transformation: str) -> None:
    op, reference, point = OPERATORS[name]
    apply = TRANSFORMATIONS[transformation]
    run = lambda function: lambda *at: apply(make_loss(function), at)  # noqa: E731
    due = run(reference)(*point)
    for own in (run(op)(*point), jax.jit(run(op))(*point)):
        for actual, value in zip(jax.tree.leaves(own), jax.tree.leaves(due), strict=True):
            np.testing.assert_allclose(actual, value, rtol=2e-4, atol=2e-4)


# On Tensors ------------------------------------------------------------------------------------------------

REAL = [name for name, operator in OPERATORS.items() if operator.point[0].dtype == jnp.float32]


def on_tape(name: str) -> tuple[Callable[..., Any], list[Tensor], Callable[..., Any]]:
    op, reference, point = OPERATORS[name]
    tensors = [oplib.tensor(np.asarray(value), requires_grad=True) for value in point]
    return make_loss(op), tensors, make_loss(reference)


def hessian_along(loss: Any, tensors: Any) -> list[Any]:
    """The product of the Hessian and a direction, by two backward passes."""
    grads = oplib.autograd.grad(loss(*tensors), tensors, create_graph=True)
    directions = list(map(Tensor.from_array, along(tuple(t.detach().array for t in tensors))))
    return [grad.array for grad in oplib.autograd.grad(grads, tensors, grad_outputs=directions)]


def hessian_by_duals(loss: Any, tensors: Any) -> list[Any]:
    """The same, by a backward pass on dual tensors."""
    directions = along(tuple(t.detach().array for t in tensors))
    with fw.dual_level():
        pairs = zip(tensors, directions, strict=True)
        duals = [fw.make_dual(tensor, Tensor.from_array(value)) for tensor, value in pairs]
        grads = oplib.autograd.grad(loss(*duals), duals, create_graph=True)
        return [fw.unpack_dual(grad).tangent.array for grad in grads]


def hessian_of_tangents(loss: Any, tensors: Any) -> list[Any]:
    """The same, by a backward pass from a tangent."""
    directions = along(tuple(t.detach().array for t in tensors))
    with fw.dual_level():
        pairs = zip(tensors, directions, strict=True)
        duals = [fw.make_dual(tensor, Tensor.from_array(value)) for tensor, value in pairs]
        tangent = fw.unpack_dual(loss(*duals)).tangent
        return [grad.array for grad in oplib.autograd.grad(tangent, tensors)]


@pytest.mark.matrix(4)
@pytest.mark.spec("D.55")
@pytest.mark.parametrize(
    ("by", "compiled"),
    [(hessian_along, False), (hessian_along, True), (hessian_by_duals, False), (hessian_of_tangents, False)],
    ids=["backward twice", "in oplib.jit", "backward on duals", "backward of a tangent"],
)
@pytest.mark.parametrize("name", REAL)
def test_second_derivatives_on_tensors_are_those_of_the_function(name: str, by: Any, compiled: bool) -> None:
    loss, tensors, reference = on_tape(name)
    run = oplib.jit(lambda *at: [Tensor.from_array(value) for value in by(loss, at)]) if compiled else None
    own = [value.array for value in run(*tensors)] if run else by(loss, tensors)
    point = tuple(tensor.detach().array for tensor in tensors)
    due = jax.jvp(lambda *at: pull(reference, at), point, along(point))[1]
    for actual, value in zip(own, due, strict=True):
        np.testing.assert_allclose(actual, value, rtol=2e-4, atol=2e-4)


# What is refused -------------------------------------------------------------------------------------------


def make_product(saves: str = "w", *, gives_all: bool = False, on_host: bool = False) -> Any:
    """The op w * x, declared linear, with what its formula saves; right only if w is a constant."""

    @custom_op
    def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return x * w

    product.register_fake(lambda x, w: x)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        x, w = inputs
        known = {"w": (w,), "x": (w, x), "y": (w, output), "x + 1": (w, x + 1)}
        ctx.save_for_backward(*known[saves])

    def adjoint(ctx: Any, g: Any) -> Any:
        saved = ctx.saved_tensors
        return saved[0] * g + (saved[-1] * 0 if len(saved) > 1 else 0), g if gives_all else None

    def on_numpy(ctx: Any, g: np.ndarray) -> Any:
        return adjoint(ctx, g)

    product.register_autograd(on_numpy if on_host else adjoint, setup_context=save, linear=True)
    return product


@pytest.mark.spec("D.55")
@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("transform", [jax.jvp, lambda f, at, by: jax.grad(lambda *x: f(*x).sum(), 1)(*at)])
def test_a_tangent_for_an_argument_without_a_gradient_raises(transform: Any, on_host: bool) -> None:
    with pytest.raises(MissingRuleError, match="argument 'w' has a tangent, and the backward formula"):
        transform(make_product(on_host=on_host), (X, X), (X, X))


@pytest.mark.spec("D.55")
@pytest.mark.parametrize("on_host", [False, True])
@pytest.mark.parametrize("world", ["jvp", "grad", "tape"])
@pytest.mark.parametrize(
    ("saves", "gives_all", "name"),
    [
        ("w", True, "argument 'w'"),
        ("x", False, "argument 'x'"),
        ("y", False, "a result"),
        ("x + 1", False, "what setup_context computed"),
    ],
)
def test_a_formula_that_reads_an_argument_in_which_the_op_is_linear_raises(
    saves: str, gives_all: bool, name: str, world: str, on_host: bool
) -> None:
    op = make_product(saves, gives_all=gives_all, on_host=on_host)
    calls: dict[str, Callable[[], Any]] = {
        "jvp": lambda: jax.jvp(lambda x: op(x, X), (X,), (X,)),
        "grad": lambda: jax.grad(lambda x: op(x, X).sum())(X),
        "tape": lambda: op(oplib.ones(4, requires_grad=True), oplib.ones(4)),
    }
    with pytest.raises(AutogradError, match=f"declared linear, and its backward formula reads {name}"):
        calls[world]()


def test_a_formula_may_save_an_argument_that_it_does_not_read() -> None:
    @custom_op
    def double(x: jax.Array) -> jax.Array:
        return jnp.round(2 * x * 2**10) / 2**10

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    double.register_autograd(lambda ctx, g: 2 * g, setup_context=save, linear=True)
    np.testing.assert_allclose(jax.jacfwd(double)(X), 2 * jnp.eye(4))
    np.testing.assert_allclose(jax.jacrev(double)(X), 2 * jnp.eye(4))


@pytest.mark.parametrize("option", [{"nonlinear": True}, {"surrogate": True}, {"forward": lambda ctx, x: x}])
def test_linear_excludes_what_contradicts_it(option: dict[str, Any]) -> None:
    op = custom_op(lambda x: x, schema="(Tensor x) -> Tensor")
    with pytest.raises(RegistrationValueError, match="linear excludes"):
        op.register_autograd(lambda ctx, g: g, linear=True, **option)
    with pytest.raises(RegistrationValueError, match="linear belong to a formula"):
        op.register_autograd("derive", linear=True)


# Beside other rules ----------------------------------------------------------------------------------------


@pytest.mark.spec("D.55")
def test_a_linear_op_is_transposed_twice_and_solved_with() -> None:
    op = OPERATORS["host"].op

    def adjoint(y: Any) -> Any:
        return jax.linear_transpose(op, X)(y)[0]

    y = jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(adjoint(y), MATRIX.T @ y, rtol=1e-5)
    np.testing.assert_allclose(jax.linear_transpose(adjoint, y)(X)[0], MATRIX @ X, rtol=1e-5)
    system = MATRIX.T @ MATRIX + np.eye(4)

    def solve(b: Any) -> Any:
        return jax.scipy.sparse.linalg.cg(lambda x: adjoint(op(x)) + x, b)[0]

    np.testing.assert_allclose(solve(X), np.linalg.solve(system, X), rtol=1e-3)
    np.testing.assert_allclose(jax.jacrev(solve)(X), np.linalg.inv(system), atol=1e-3)
    np.testing.assert_allclose(jax.jacfwd(solve)(X), np.linalg.inv(system), atol=1e-3)


@pytest.mark.spec("D.55")
@pytest.mark.parametrize("declared", [False, True])
def test_a_jvp_rule_may_call_a_host_op_on_tangents(declared: bool) -> None:
    @custom_op
    def apply(x: np.ndarray) -> np.ndarray:
        return MATRIX @ x

    apply.register_fake(lambda x: jax.ShapeDtypeStruct((3,), x.dtype))
    if declared:
        apply.register_autograd(lambda ctx, g: jnp.asarray(MATRIX.T) @ g, linear=True)

    @custom_op
    def curved(x: np.ndarray) -> np.ndarray:
        return MATRIX @ np.sin(x)

    curved.register_fake(lambda x: jax.ShapeDtypeStruct((3,), x.dtype))
    curved.register_jvp(lambda at, by: (curved(at[0]), apply(jnp.cos(at[0]) * by[0])))

    def reference(x: Any) -> Any:
        return jnp.asarray(MATRIX) @ jnp.sin(x)

    for run in (curved, jax.jit(curved)):
        np.testing.assert_allclose(jax.jacfwd(run)(X), jax.jacfwd(reference)(X), rtol=1e-5)
    pushed = jax.vmap(lambda x: jax.jvp(curved, (x,), (X,))[1])(jnp.stack([X, 2 * X]))
    due = jax.vmap(lambda x: jax.jvp(reference, (x,), (X,))[1])(jnp.stack([X, 2 * X]))
    np.testing.assert_allclose(pushed, due, rtol=1e-5)
    if declared:
        np.testing.assert_allclose(
            jax.hessian(lambda x: (curved(x) ** 2).sum())(X),
            jax.hessian(lambda x: (reference(x) ** 2).sum())(X),
            rtol=1e-4,
            atol=1e-4,
        )
    else:
        with pytest.raises(MissingRuleError, match="no autograd formula was registered"):
            jax.grad(lambda x: curved(x).sum())(X)


@pytest.mark.spec("D.55")
def test_forward_mode_of_another_op_is_derived_from_a_formula_that_calls_a_linear_one() -> None:
    linear = OPERATORS["host"].op

    @custom_op
    def curved(x: np.ndarray) -> np.ndarray:
        return MATRIX @ np.sin(x)

    curved.register_fake(lambda x: jax.ShapeDtypeStruct((3,), x.dtype))

    def backward(ctx: Any, g: jax.Array) -> jax.Array:
        (x,) = ctx.saved_tensors
        return jnp.cos(x) * jax.linear_transpose(linear, x)(g)[0]

    save = lambda ctx, inputs, output: ctx.save_for_backward(inputs[0])  # noqa: E731
    curved.register_autograd(backward, setup_context=save)

    def reference(x: Any) -> Any:
        return jnp.asarray(MATRIX) @ jnp.sin(x)

    np.testing.assert_allclose(jax.jacfwd(curved)(X), jax.jacfwd(reference)(X), rtol=1e-5)
    own, due = (jax.hessian(lambda x, f=f: (f(x) ** 2).sum())(X) for f in (curved, reference))
    np.testing.assert_allclose(own, due, rtol=1e-4, atol=1e-4)


@pytest.mark.matrix(4)
@pytest.mark.spec("D.55")
@pytest.mark.devices(4)
@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "pallas"])  # JAX asks it for types
@pytest.mark.parametrize("spread", [False, True])
def test_derivatives_in_shard_map_are_those_of_the_function(name: str, spread: bool) -> None:
    op, reference, point = OPERATORS[name]
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("i",))
    spec = jax.sharding.PartitionSpec("i" if spread else None)
    at = tuple(jnp.stack([value, 2 * value, -value, value + 1]) if spread else value for value in point)

    def run(function: Any) -> Any:
        def body(*at: Any) -> Any:
            loss = make_loss(function)(*(value[0] if spread else value for value in at))
            return jax.lax.psum(loss * (1.0 + jax.lax.axis_index("i")), "i")

        whole = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=jax.sharding.PartitionSpec())
        return jax.jit(lambda *at: (pull(whole, at), push(lambda *at: pull(whole, at), at)))(*at)

    for actual, due in zip(jax.tree.leaves(run(op)), jax.tree.leaves(run(reference)), strict=True):
        np.testing.assert_allclose(actual, due, rtol=2e-4, atol=2e-3)


@pytest.mark.spec("D.55")
def test_nothing_keeps_a_local_linear_op_alive() -> None:
    def make() -> Any:
        operator = make_operators()["host"]
        jax.hessian(make_loss(operator.op))(X)
        jax.jit(jax.hessian(make_loss(operator.op)))(X)
        return weakref.ref(operator.op)

    died = make()
    gc.collect()
    assert died() is None


def test_the_gradient_of_mapped_gradients_maps_what_the_op_is_not_linear_in() -> None:
    @custom_op("linear::times")
    def times(x: jax.Array, weight: jax.Array) -> jax.Array:
        return x * weight

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])

    times.register_autograd(lambda ctx, g: (g * ctx.saved_tensors[0], None), setup_context=save, linear=True)

    def differentiate(function: Any) -> Any:
        gradient = jax.grad(lambda x, weight: (function(x, weight) ** 3).sum())
        return jax.grad(lambda x: jax.vmap(gradient)(x, weights).sum())(weights - 1)

    weights = jnp.arange(2.0, 8.0).reshape(2, 3)
    np.testing.assert_allclose(differentiate(times), differentiate(jnp.multiply), rtol=1e-6)
