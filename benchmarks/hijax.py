"""An op of oplib, the same as a hijax primitive, and as a ``jax.custom_vjp``: each has a backward rule only.

``python -m benchmarks.hijax`` prints under how many transformations of JAX each is right, wrong and refused,
the lines of its definition, what an eager call costs, and what a trace of the gradient of ten calls costs.
The rules are those of the function itself, so the same function without rules gives what is due.
"""

from __future__ import annotations

import inspect
import timeit
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify, hijax
from jax.sharding import AxisType, PartitionSpec

import oplib

Function = Callable[[Any], Any]
Base: Any = getattr(hijax, "VJPHiPrimitive", None) or hijax.HiPrim  # JAX before 0.11, and since
X = jnp.linspace(0.2, 1.1, 4)
MESH = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Auto,))


def wave(x: Any) -> Any:
    """The function whose rules the others have."""
    return jnp.sin(x) * x


def make_op() -> Function:
    """An op with a backward formula."""

    @oplib.custom_op("hijax::wave")
    def op(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * x

    def save(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001  named by the caller
        ctx.save_for_backward(*inputs)

    @op.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (jnp.cos(x) * x + jnp.sin(x))

    return op


def make_primitive() -> Function:
    """A primitive with a backward rule."""

    class Wave(Base):
        def __init__(self, aval: Any) -> None:
            self.in_avals = (aval,)
            self.out_aval = aval
            self.params = {}
            super().__init__()

        def expand(self, x: Any) -> Any:
            return jnp.sin(x) * x

        def vjp_fwd(self, _nonzeros: Any, x: Any) -> Any:
            return self.expand(x), x

        def vjp_bwd_retval(self, x: Any, g: Any) -> Any:
            return (g * (jnp.cos(x) * x + jnp.sin(x)),)

        def batch(self, _axis: Any, values: Any, dims: Any) -> Any:
            return Wave(jax.typeof(values[0]))(*values), dims[0]

    def op(x: Any) -> Any:
        return Wave(jax.typeof(x))(x)

    return op


def make_custom_vjp() -> Function:
    """A function with a backward rule."""

    @jax.custom_vjp
    def op(x: jax.Array) -> jax.Array:
        return jnp.sin(x) * x

    def forward(x: Any) -> Any:
        return jnp.sin(x) * x, x

    def backward(x: Any, g: Any) -> Any:
        return (g * (jnp.cos(x) * x + jnp.sin(x)),)

    op.defvjp(forward, backward)
    return op


FORMS = {"oplib": make_op, "hijax": make_primitive, "custom_vjp": make_custom_vjp}


def add(f: Function) -> Function:
    """Returns the function as one number, which is differentiated."""
    return lambda x: f(x).sum()


def loop(f: Function) -> Function:
    """Returns three steps of a loop."""
    return lambda x: jax.lax.scan(lambda carry, _: (f(carry), carry), x, None, 3)[0]


def branch(f: Function) -> Function:
    """Returns the function in a branch."""
    return lambda x: jax.lax.cond(x[0] > 0, f, jnp.cos, x)


def keep_names(f: Function) -> Function:
    """Returns the function, of which the backward computes again what the policy does not save."""
    return jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable)


def export(f: Function) -> Any:
    """Calls the function from its stored form."""
    stored = jax.export.export(jax.jit(f))(X).serialize()
    return jax.export.deserialize(stored).call(X)


def spread(f: Function) -> Function:
    """Returns the function on the parts of an array."""
    spec = PartitionSpec("i")
    return jax.shard_map(f, mesh=MESH, in_specs=spec, out_specs=spec)


ROWS = jnp.stack([X, 2 * X])
TRANSFORMATIONS: dict[str, Callable[[Function], Any]] = {
    "call": lambda f: f(X),
    "jit": lambda f: jax.jit(f)(X),
    "vmap": lambda f: jax.vmap(f)(ROWS),
    "vmap of vmap": lambda f: jax.vmap(jax.vmap(f))(ROWS),
    "vmap over the last axis": lambda f: jax.vmap(f, -1, -1)(ROWS),
    "grad": lambda f: jax.grad(add(f))(X),
    "jit of grad": lambda f: jax.jit(jax.grad(add(f)))(X),
    "vmap of grad": lambda f: jax.vmap(jax.grad(add(f)))(ROWS),
    "grad of vmap": lambda f: jax.grad(add(jax.vmap(f)))(ROWS),
    "grad of grad": lambda f: jax.grad(add(jax.grad(add(f))))(X),
    "third derivative": lambda f: jax.grad(add(jax.grad(add(jax.grad(add(f))))))(X),
    "jacrev": lambda f: jax.jacrev(f)(X),
    "jvp": lambda f: jax.jvp(f, (X,), (X,)),
    "vmap of jvp": lambda f: jax.vmap(lambda t: jax.jvp(f, (X,), (t,))[1])(ROWS),
    "jvp of vmap": lambda f: jax.jvp(jax.vmap(f), (ROWS,), (ROWS,)),
    "jvp of jvp": lambda f: jax.jvp(lambda x: jax.jvp(f, (x,), (X,))[1], (X,), (X,)),
    "jacfwd": lambda f: jax.jacfwd(f)(X),
    "linearize": lambda f: jax.linearize(f, X)[1](X),
    "hessian": lambda f: jax.hessian(add(f))(X),
    "jacrev of jacfwd": lambda f: jax.jacrev(jax.jacfwd(f))(X),
    "jvp of grad": lambda f: jax.jvp(jax.grad(add(f)), (X,), (X,)),
    "grad of jvp": lambda f: jax.grad(lambda x: jax.jvp(add(f), (x,), (X,))[1])(X),
    "grad of checkpoint": lambda f: jax.grad(add(jax.checkpoint(f)))(X),
    "grad of checkpoint with a policy": lambda f: jax.grad(add(keep_names(f)))(X),
    "hessian of checkpoint": lambda f: jax.hessian(add(jax.checkpoint(f)))(X),
    "scan": lambda f: loop(f)(X),
    "grad of scan": lambda f: jax.grad(add(loop(f)))(X),
    "jvp of scan": lambda f: jax.jvp(loop(f), (X,), (X,)),
    "vmap of grad of scan": lambda f: jax.vmap(jax.grad(add(loop(f))))(ROWS),
    "grad of cond": lambda f: jax.grad(add(branch(f)))(X),
    "jvp of cond": lambda f: jax.jvp(branch(f), (X,), (X,)),
    "vmap of cond": lambda f: jax.vmap(branch(f))(ROWS),
    "fori_loop": lambda f: jax.lax.fori_loop(0, 3, lambda _, x: f(x), X),
    "export": export,
    "export of grad": lambda f: export(jax.grad(add(f))),
    "shard_map": lambda f: jax.jit(spread(f))(X),
    "grad of shard_map": lambda f: jax.grad(add(spread(f)))(X),
    "jvp of shard_map": lambda f: jax.jvp(spread(f), (X,), (X,)),
    "checkify": lambda f: checkify.checkify(jax.jit(f))(X)[1],
    "grad of checkify": lambda f: jax.grad(lambda x: checkify.checkify(f)(x)[1].sum())(X),
}


def judge(form: Function) -> dict[str, str]:
    """Says for each transformation whether a function is right, wrong or refused under it."""
    return {name: _judge(transform, form) for name, transform in TRANSFORMATIONS.items()}


def _judge(transform: Callable[[Function], Any], form: Function) -> str:
    try:
        found = transform(form)
    except Exception:  # noqa: BLE001  each form refuses in ways of its own
        return "refused"
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(transform(wave)), strict=True)
    return "right" if all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs) else "wrong"


def count_lines(make: Callable[[], Function]) -> int:
    """Counts the lines of a definition that are not blank, without the three of the function around it."""
    lines = inspect.getsource(make).splitlines()
    return sum(bool(line.strip()) for line in lines) - 3


def time_call(form: Function) -> float:
    """Returns what an eager call costs, in microseconds: the least of seven means."""
    form(X)
    return 1e6 * min(timeit.repeat(lambda: form(X), number=200, repeat=7)) / 200


def time_trace(form: Function) -> float:
    """Returns what a trace of the gradient of ten calls costs, in milliseconds: the least of nine means."""

    def trace() -> Any:
        def chain(x: Any) -> Any:
            for _ in range(10):
                x = form(x)
            return x.sum()

        return jax.make_jaxpr(jax.grad(chain))(X)

    trace()
    return 1e3 * min(timeit.repeat(trace, number=5, repeat=9)) / 5


def main() -> None:
    """Prints the table, and then what is not right."""
    print(f"JAX {jax.__version__}")
    print("| form | right | wrong | refused | lines | eager call, us | trace of ten gradients, ms |")
    print("|---|---|---|---|---|---|---|")
    notes = []
    for name, make in FORMS.items():
        form = make()
        verdicts = judge(form)
        counts = [list(verdicts.values()).count(what) for what in ("right", "wrong", "refused")]
        cells = [*counts, count_lines(make), f"{time_call(form):.1f}", f"{time_trace(form):.1f}"]
        print(f"| {name} |", " | ".join(map(str, cells)), "|")
        notes += [f"{name}: {what}: {said}" for what, said in verdicts.items() if said != "right"]
    print("\n".join(notes))


if __name__ == "__main__":
    main()
