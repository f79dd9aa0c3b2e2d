"""The columns of the matrix: the ways to run the code of a row. See the docstring of the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

import oplib
from oplib import Tensor
from oplib.autograd import Function, forward_ad, grad
from oplib.autograd.compiled_autograd import enable

Program = Callable[[Tensor], Tensor]
Found = dict[str, Any]
POINT, DIRECTION = np.array([0.7, 1.6], np.float32), np.array([1.0, -2.0], np.float32)
COLUMNS: dict[str, Callable[[Program], Found]] = {}


def column(run: Callable[[Program], Found]) -> Callable[[Program], Found]:
    """Adds a column."""
    COLUMNS[run.__name__.strip("_").replace("_", " ")] = run
    return run


def _loss(program: Program, t: Tensor) -> Tensor:
    return program(t).sin().sum()


def _on_arrays(program: Program) -> Callable[[Any], Any]:
    return lambda a: _loss(program, Tensor.from_array(a)).array


def _leaf() -> Tensor:
    return oplib.tensor(POINT, requires_grad=True)


def run_op_by_op(program: Program) -> Found:
    """Returns everything, by the tape."""
    t = _leaf()
    (gradient,) = grad(_loss(program, t), t, create_graph=True)
    rows = [
        grad(item, t, retain_graph=True, allow_unused=True, materialize_grads=True)[0].tolist()
        if item.requires_grad
        else [0.0, 0.0]
        for item in gradient
    ]
    return {
        "value": _loss(program, t).item(),
        "gradient": gradient.detach().numpy(),
        "slope": gradient.detach().numpy() @ DIRECTION,
        "hessian": rows,
    }


def _gradient_of(f: Callable[[Tensor], Tensor]) -> Found:
    t = _leaf()
    value = f(t)
    return {"value": value.item(), "gradient": grad(value, t)[0].numpy()}


@column
def backward(program):
    t = _leaf()
    _loss(program, t).backward()
    return {"gradient": t.grad.numpy()}


@column
def compiled_backward(program):
    t = _leaf()
    with enable(jax.jit):
        _loss(program, t).backward()
    return {"gradient": t.grad.numpy()}


@column
def oplib_jit(program):
    return _gradient_of(oplib.jit(lambda t: _loss(program, t)))


@column
def oplib_jit_second_call(program):
    step = oplib.jit(lambda t: _loss(program, t))
    step(_leaf())
    return _gradient_of(step)


@column
def oplib_jit_with_its_gradient(program):
    step = oplib.jit(lambda t: grad(_loss(program, t), t)[0])
    return {"gradient": step(_leaf()).numpy()}


def _scan(program: Program, t: Tensor) -> Tensor:
    return oplib.scan(lambda carry, _: (program(carry), None), t, None, length=1)[0]


@column
def oplib_scan(program):
    return _gradient_of(
        lambda t: oplib.scan(lambda c, _: (program(c), None), t, None, length=1)[0].sin().sum()
    )


@column
def oplib_cond(program):
    return _gradient_of(lambda t: oplib.cond(oplib.tensor(True), program, lambda t: t * 1, t).sin().sum())


@column
def dual_level(program):
    with forward_ad.dual_level():
        made = forward_ad.make_dual(oplib.tensor(POINT), oplib.tensor(DIRECTION))
        value, slope = forward_ad.unpack_dual(_loss(program, made))
        return {"value": value.item(), "slope": 0.0 if slope is None else slope.item()}


@column
def jax_jit(program):
    return {"value": jax.jit(_on_arrays(program))(POINT)}


@column
def tape_in_jax_jit(program):
    return {"gradient": jax.jit(lambda t: grad(_loss(program, t), t)[0])(_leaf()).numpy()}


@column
def jax_grad(program):
    value, gradient = jax.value_and_grad(_on_arrays(program))(POINT)
    return {"value": value, "gradient": gradient}


@column
def jax_grad_of_a_Tensor(program):
    gradient = jax.grad(lambda t: _loss(program, t).array)(oplib.tensor(POINT))
    return {"gradient": gradient.numpy()}


@column
def jit_of_grad(program):
    return {"gradient": jax.jit(jax.grad(_on_arrays(program)))(POINT)}


@column
def grad_of_jit(program):
    return {"gradient": jax.grad(jax.jit(_on_arrays(program)))(POINT)}


@column
def jax_vjp(program):
    value, pull_back = jax.vjp(_on_arrays(program), jnp.asarray(POINT))
    return {"value": value, "gradient": pull_back(jnp.ones_like(value))[0]}


@column
def jax_jvp(program):
    value, slope = jax.jvp(_on_arrays(program), (POINT,), (DIRECTION,))
    return {"value": value, "slope": slope}


@column
def jax_linearize(program):
    value, push = jax.linearize(_on_arrays(program), jnp.asarray(POINT))
    return {"value": value, "slope": push(jnp.asarray(DIRECTION))}


@column
def jax_hessian(program):
    return {"hessian": jax.hessian(_on_arrays(program))(POINT)}


@column
def grad_of_grad(program):
    f = jax.grad(_on_arrays(program))
    return {"hessian": [jax.grad(lambda a, k=k: f(a)[k])(jnp.asarray(POINT)) for k in range(2)]}


@column
def vmap_of_grad(program):
    batch = jnp.stack([POINT * 2, POINT])
    return {"gradient": jax.vmap(jax.grad(_on_arrays(program)))(batch)[1]}


@column
def grad_of_vmap(program):
    batch = jnp.stack([POINT * 2, POINT])
    return {"gradient": jax.grad(lambda a: jax.vmap(_on_arrays(program))(a).sum())(batch)[1]}


@column
def grad_of_oplib_vmap(program):
    batch = jnp.stack([POINT * 2, POINT])
    f = oplib.vmap(lambda t: _loss(program, t))
    return {"gradient": jax.grad(lambda a: f(Tensor.from_array(a)).sum().array)(batch)[1]}


@column
def oplib_vmap(program):
    t = oplib.tensor(np.stack([POINT * 2, POINT]), requires_grad=True)
    return {"gradient": grad(oplib.vmap(lambda t: _loss(program, t))(t).sum(), t)[0][1].numpy()}


@column
def grad_of_oplib_jit(program):
    f = oplib.jit(lambda t: _loss(program, t))
    return {"gradient": jax.grad(lambda a: f(Tensor.from_array(a)).array)(POINT)}


@column
def grad_of_checkpoint(program):
    return {"gradient": jax.grad(jax.checkpoint(_on_arrays(program)))(POINT)}


@column
def grad_of_lax_scan(program):
    def f(a):
        return jax.lax.scan(lambda c, _: (program(Tensor.from_array(c)).array, None), a, None, length=1)[0]

    return {
        "gradient": jax.grad(lambda a: jnp.sin(f(a)).sum())(jnp.asarray(POINT)),
        "hessian": jax.hessian(lambda a: jnp.sin(f(a)).sum())(jnp.asarray(POINT)),
    }


@column
def grad_of_lax_cond(program):
    f = _on_arrays(program)
    return {"gradient": jax.grad(lambda a: jax.lax.cond(a[0] > 0, f, jnp.sum, a))(jnp.asarray(POINT))}


@column
def grad_of_oplib_scan(program):
    def f(a):
        return _scan(program, Tensor.from_array(a)).sin().sum().array

    return {"gradient": jax.grad(f)(POINT), "hessian": jax.hessian(f)(POINT)}


@column
def grad_of_shard_map(program):
    mesh = jax.make_mesh((1,), ("i",))
    f = jax.shard_map(_on_arrays(program), mesh=mesh, in_specs=PartitionSpec(), out_specs=PartitionSpec())
    return {"gradient": jax.jit(jax.grad(f))(jnp.asarray(POINT))}


@column
def kernel_on_Tensors(program):
    op = oplib.library.custom_op(_as_kernel(program), autograd="derive")
    return {
        **_gradient_of(lambda t: op(t).sin().sum()),
        "hessian": jax.hessian(lambda a: jnp.sin(op(a)).sum())(jnp.asarray(POINT)),
    }


def _as_kernel(program: Program) -> Callable[[oplib.Tensor], oplib.Tensor]:
    def kernel(x: oplib.Tensor) -> oplib.Tensor:
        return program(x)

    return kernel


@column
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
