"""The columns of the matrix: the ways to run the code of a row. See the docstring of the package."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

import oplib
from oplib import Tensor
from oplib.autograd import Function, forward_ad, grad
from oplib.autograd.compiled_autograd import enable
from oplib.errors import OplibError
from oplib.utils.checkpoint import checkpoint

from .row import Program, Row

Found = dict[str, Any]
POINT, DIRECTION = np.array([0.7, 1.6], np.float32), np.array([1.0, -2.0], np.float32)
# The columns that have a cell for each kind of op; the others have one for the first kind.
KINDS_IN = {"op by op", "oplib jit second call", "jax grad", "jax jvp", "jax hessian", "vmap of grad"}


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        run: gives the code of a row to its world.
        tags: what it has in common with others, for the exceptions of rows: ``jax`` (JAX differentiates or
            maps), ``program`` (``oplib.jit`` runs the code), ``body`` (a body of control flow does),
            ``forward`` (forward mode of the tape), ``records nothing`` (the code runs with recording off),
            ``derived`` (JAX differentiates the kernel that runs it), ``reentrant`` (the code runs with
            recording off at first, and again in the backward pass), ``runs twice`` (the code),
            ``later call`` (the program is traced before; the column enters the row's block itself).
    """

    run: Callable[..., Found]
    tags: frozenset[str]


COLUMNS: dict[str, Column] = {}


def column(*tags: str) -> Callable[[Callable[..., Found]], Callable[..., Found]]:
    """Adds a column."""

    def add(run: Callable[..., Found]) -> Callable[..., Found]:
        COLUMNS[run.__name__.replace("_", " ")] = Column(run, frozenset(tags))
        return run

    return add


def _loss(program: Program, t: Tensor) -> Tensor:
    return program(t).sin().sum()


def _on_arrays(program: Program) -> Callable[[Any], Any]:
    return lambda a: _loss(program, Tensor.from_array(a)).array


def _leaf() -> Tensor:
    return oplib.tensor(POINT, requires_grad=True)


@column()
def op_by_op(program: Program) -> Found:
    """Returns everything, by the tape."""
    t = _leaf()
    value = _loss(program, t)
    (gradient,) = grad(value, t, create_graph=True)
    rows = [
        grad(item, t, retain_graph=True, allow_unused=True, materialize_grads=True)[0].tolist()
        if item.requires_grad
        else [0.0, 0.0]
        for item in gradient
    ]
    return {
        "value": value.item(),
        "gradient": gradient.detach().numpy(),
        "slope": gradient.detach().numpy() @ DIRECTION,
        "hessian": rows,
    }


def _gradient_of(f: Callable[[Tensor], Tensor]) -> Found:
    t = _leaf()
    value = f(t)
    return {"value": value.item(), "gradient": grad(value, t)[0].numpy()}


@column()
def backward(program):
    t = _leaf()
    _loss(program, t).backward()
    return {"gradient": t.grad.numpy()}


@column()
def compiled_backward(program):
    t = _leaf()
    with enable(jax.jit):
        _loss(program, t).backward()
    return {"gradient": t.grad.numpy()}


@column("program")
def oplib_jit(program):
    return _gradient_of(oplib.jit(lambda t: _loss(program, t)))


@column("program", "later call")
def oplib_jit_second_call(program, row: Row):
    step = oplib.jit(lambda t: _loss(program, t))
    with row.around():
        step(_leaf())
        row.before()
        return row.add_effects(_gradient_of(step))


def _try(step: Program, row: Row) -> Any:
    row.before()
    try:
        return _gradient_of(step)
    except OplibError as error:
        return type(error)


@column("program", "later call")
def oplib_jit_with_the_state_changed_between(program, row: Row):
    step = oplib.jit(lambda t: _loss(program, t))
    for point in (oplib.tensor(POINT), _leaf()):
        with oplib.no_grad(), suppress(OplibError):  # a row may need recording
            step(point)
    outside = _try(step, row)
    with row.around():
        row.before()
        found = row.add_effects(_gradient_of(step))
    np.testing.assert_equal(_try(step, row), outside)
    return found


@column("program")
def oplib_jit_with_its_gradient(program):
    step = oplib.jit(lambda t: grad(_loss(program, t), t)[0])
    return {"gradient": step(_leaf()).numpy()}


@column("runs twice")
def checkpoint_around(program):
    return _gradient_of(lambda t: checkpoint(lambda t: _loss(program, t), t, use_reentrant=False))


@column("reentrant", "runs twice")
def reentrant_checkpoint_around(program):
    t = _leaf()
    checkpoint(lambda t: _loss(program, t), t, use_reentrant=True).backward()
    return {"gradient": t.grad.numpy()}


@column("program")
def checkpoint_of_oplib_jit(program):
    step = oplib.jit(lambda t: _loss(program, t))
    return _gradient_of(lambda t: checkpoint(step, t, use_reentrant=False))


def _scan(program: Program, t: Tensor) -> Tensor:
    return oplib.scan(lambda carry, _: (program(carry), None), t, None, length=1)[0]


@column("body")
def oplib_scan(program):
    return _gradient_of(
        lambda t: oplib.scan(lambda c, _: (program(c), None), t, None, length=1)[0].sin().sum()
    )


@column("body")
def oplib_cond(program):
    return _gradient_of(lambda t: oplib.cond(oplib.tensor(True), program, lambda t: t * 1, t).sin().sum())


@column("body", "jax", "records nothing")
def oplib_while_loop(program):
    def loop(t):
        step = lambda carry: (carry[0] + 1, program(carry[1]))  # noqa: E731
        return oplib.while_loop(lambda carry: carry[0] < 1, step, (oplib.tensor(0), t))[1].sin().sum()

    value, slope = jax.jvp(lambda a: loop(Tensor.from_array(a)).array, (POINT,), (DIRECTION,))
    return {"value": value, "slope": slope}


@column("forward")
def dual_level(program):
    with forward_ad.dual_level():
        made = forward_ad.make_dual(oplib.tensor(POINT), oplib.tensor(DIRECTION))
        value, slope = forward_ad.unpack_dual(_loss(program, made))
        return {"value": value.item(), "slope": 0.0 if slope is None else slope.item()}


@column("jax")
def jax_jit(program):
    return {"value": jax.jit(_on_arrays(program))(POINT)}


@column()
def tape_in_jax_jit(program):
    return {"gradient": jax.jit(lambda t: grad(_loss(program, t), t)[0])(_leaf()).numpy()}


@column("jax")
def jax_grad(program):
    value, gradient = jax.value_and_grad(_on_arrays(program))(POINT)
    return {"value": value, "gradient": gradient}


@column("jax")
def jax_grad_of_a_Tensor(program):
    gradient = jax.grad(lambda t: _loss(program, t).array)(oplib.tensor(POINT))
    return {"gradient": gradient.numpy()}


@column("jax")
def jit_of_grad(program):
    return {"gradient": jax.jit(jax.grad(_on_arrays(program)))(POINT)}


@column("jax")
def grad_of_jit(program):
    return {"gradient": jax.grad(jax.jit(_on_arrays(program)))(POINT)}


@column("jax")
def jax_vjp(program):
    value, pull_back = jax.vjp(_on_arrays(program), jnp.asarray(POINT))
    return {"value": value, "gradient": pull_back(jnp.ones_like(value))[0]}


@column("jax")
def jax_jvp(program):
    value, slope = jax.jvp(_on_arrays(program), (POINT,), (DIRECTION,))
    return {"value": value, "slope": slope}


@column("jax")
def jax_linearize(program):
    value, push = jax.linearize(_on_arrays(program), jnp.asarray(POINT))
    return {"value": value, "slope": push(jnp.asarray(DIRECTION))}


@column("jax")
def jax_hessian(program):
    return {"hessian": jax.hessian(_on_arrays(program))(POINT)}


@column("jax", "runs twice")
def grad_of_grad(program):
    f = jax.grad(_on_arrays(program))
    return {"hessian": [jax.grad(lambda a, k=k: f(a)[k])(jnp.asarray(POINT)) for k in range(2)]}


@column("jax")
def vmap_of_grad(program):
    batch = jnp.stack([POINT * 2, POINT])
    return {"gradient": jax.vmap(jax.grad(_on_arrays(program)))(batch)[1]}


@column("jax")
def grad_of_vmap(program):
    batch = jnp.stack([POINT * 2, POINT])
    return {"gradient": jax.grad(lambda a: jax.vmap(_on_arrays(program))(a).sum())(batch)[1]}


@column("jax")
def grad_of_oplib_vmap(program):
    batch = jnp.stack([POINT * 2, POINT])
    f = oplib.vmap(lambda t: _loss(program, t))
    return {"gradient": jax.grad(lambda a: f(Tensor.from_array(a)).sum().array)(batch)[1]}


@column()
def oplib_vmap(program):
    t = oplib.tensor(np.stack([POINT * 2, POINT]), requires_grad=True)
    return {"gradient": grad(oplib.vmap(lambda t: _loss(program, t))(t).sum(), t)[0][1].numpy()}


@column("jax", "program")
def grad_of_oplib_jit(program):
    f = oplib.jit(lambda t: _loss(program, t))
    return {"gradient": jax.grad(lambda a: f(Tensor.from_array(a)).array)(POINT)}


@column("jax")
def grad_of_checkpoint(program):
    return {"gradient": jax.grad(jax.checkpoint(_on_arrays(program)))(POINT)}


@column("jax", "body")
def grad_of_lax_scan(program):
    def f(a):
        return jax.lax.scan(lambda c, _: (program(Tensor.from_array(c)).array, None), a, None, length=1)[0]

    return {
        "gradient": jax.grad(lambda a: jnp.sin(f(a)).sum())(jnp.asarray(POINT)),
        "hessian": jax.hessian(lambda a: jnp.sin(f(a)).sum())(jnp.asarray(POINT)),
    }


@column("jax", "body")
def grad_of_lax_cond(program):
    f = _on_arrays(program)
    return {"gradient": jax.grad(lambda a: jax.lax.cond(a[0] > 0, f, jnp.sum, a))(jnp.asarray(POINT))}


@column("jax", "body")
def grad_of_oplib_scan(program):
    def f(a):
        return _scan(program, Tensor.from_array(a)).sin().sum().array

    return {"gradient": jax.grad(f)(POINT), "hessian": jax.hessian(f)(POINT)}


@column("jax")
def grad_of_shard_map(program):
    mesh = jax.make_mesh((1,), ("i",))
    f = jax.shard_map(_on_arrays(program), mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec())
    return {"gradient": jax.jit(jax.grad(f))(jnp.asarray(POINT))}


@column("records nothing", "derived", "runs twice")
def kernel_on_Tensors(program):
    op = oplib.library.custom_op(_as_kernel(program), autograd="derive")
    return {
        **_gradient_of(lambda t: op(t).sin().sum()),
        "hessian": jax.hessian(lambda a: jnp.sin(op(a)).sum())(jnp.asarray(POINT)),
    }


@column("records nothing", "derived", "runs twice")
def kernel_on_arrays(program):
    def kernel(x: jax.Array) -> jax.Array:
        return program(Tensor.from_array(x)).array

    op = oplib.library.custom_op(kernel, autograd="derive")
    return {
        **_gradient_of(lambda t: op(t).sin().sum()),
        "hessian": jax.hessian(lambda a: jnp.sin(op(a)).sum())(jnp.asarray(POINT)),
    }


def _as_kernel(program: Program) -> Callable[[oplib.Tensor], oplib.Tensor]:
    def kernel(x: oplib.Tensor) -> oplib.Tensor:
        return program(x)

    return kernel


@column("records nothing", "jax", "runs twice")
def backward_of_a_Function(program):
    class Squared(Function):
        """Its first derivative is what the row gives."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * program(x)

    def first(a):
        return jax.grad(lambda a: Squared.apply(Tensor.from_array(a)).sum().array)(a)

    return {
        "value": jnp.sin(first(jnp.asarray(POINT))).sum(),
        "gradient": jax.grad(lambda a: jnp.sin(first(a)).sum())(jnp.asarray(POINT)),
    }
