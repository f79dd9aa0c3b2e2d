"""Functions for ``shard_map`` with collectives, and ops of every kind that compute them.

Each function takes a part of an array and a weight. Its backward formula is right for one device: it is the
transpose of the function as a program that all devices run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from oplib.library import custom_op

AXIS, COUNT = "i", 4
RIGHT, LEFT = ([(at, (at + step) % COUNT) for at in range(COUNT)] for step in (1, -1))
Formula = Callable[..., tuple[Any, Any]]


class Program(NamedTuple):
    """A function of an array and a weight.

    Attributes:
        run: the function, which gives one array or a tuple of them.
        pull: its backward formula ``(x, w, *cotangents) -> gradients``.
        results: the number of its results.
    """

    run: Callable[[Any, Any], Any]
    pull: Formula
    results: int = 1


def pull_sum_of_squares(x: Any, w: Any, g: Any) -> tuple[Any, Any]:
    return 2 * g * x * w**2, (2 * g * x**2 * w).sum()


def run_loop(x: Any, w: Any) -> Any:
    return lax.scan(lambda carry, one: (carry + lax.psum(one * w, AXIS), None), jnp.zeros(()), x)[0]


PROGRAMS = {
    "one result": Program(
        lambda x, w: jnp.sin(x) * w, lambda x, w, g: (g * w * jnp.cos(x), (g * jnp.sin(x)).sum())
    ),
    "separate results": Program(lambda x, w: (2 * x, w**3), lambda x, w, g, h: (2 * g, 3 * h * w**2), 2),
    "a product and a copy": Program(
        lambda x, w: (x * w, w**3), lambda x, w, g, h: (g * w, (g * x).sum() + 3 * h * w**2), 2
    ),
    "JAX's derivative for a part": Program(
        lambda x, w: (x * w, w**3),
        lambda x, w, g, h: (g * w, (g * x).sum() + jax.vjp(lambda w: w**3, w)[1](h)[0]),
        2,
    ),
    "psum": Program(lambda x, w: lax.psum((x**2 * w**2).sum(), AXIS), pull_sum_of_squares),
    "psum of a weight": Program(
        lambda x, w: (lax.psum(w**2, AXIS), x * w), lambda x, w, g, h: (h * w, 2 * g * w + (h * x).sum()), 2
    ),
    "pmean": Program(
        lambda x, w: lax.pmean((x**2 * w**2).sum(), AXIS),
        lambda x, w, g: pull_sum_of_squares(x, w, g / COUNT),
    ),
    "centering": Program(
        lambda x, w: w * (x - lax.pmean(x.mean(), AXIS)),
        lambda x, w, g: (
            w * g - lax.pmean((w * g).mean(), AXIS),
            (g * (x - lax.pmean(x.mean(), AXIS))).sum(),
        ),
    ),
    "all_gather": Program(
        lambda x, w: lax.all_gather(x**2 * w, AXIS, tiled=True),
        lambda x, w, g: (
            2 * x * w * lax.psum_scatter(g, AXIS, tiled=True),
            (x**2 * lax.psum_scatter(g, AXIS, tiled=True)).sum(),
        ),
    ),
    "ppermute": Program(
        lambda x, w: w * lax.ppermute(x**2, AXIS, RIGHT),
        lambda x, w, g: (
            2 * x * lax.ppermute(w * g, AXIS, LEFT),
            (g * lax.ppermute(x**2, AXIS, RIGHT)).sum(),
        ),
    ),
    "psum_scatter": Program(
        lambda x, w: lax.psum_scatter(jnp.outer(x**2, jnp.arange(4.0)).ravel() * w, AXIS, tiled=True),
        lambda x, w, g: (
            2 * x * w * (lax.all_gather(g, AXIS, tiled=True).reshape(-1, 4) @ jnp.arange(4.0)),
            (jnp.outer(x**2, jnp.arange(4.0)).ravel() * lax.all_gather(g, AXIS, tiled=True)).sum(),
        ),
    ),
    "psum in a loop": Program(run_loop, lambda x, w, g: (g * w * jnp.ones_like(x), (g * x).sum())),
    "JAX's derivative as formula": Program(
        lambda x, w: (x * w, w**3, lax.psum((x * w**2).sum(), AXIS)),
        lambda x, w, *g: jax.vjp(PROGRAMS["JAX's derivative as formula"].run, x, w)[1](g),
        3,
    ),
}
"""The formulas of these programs contain no sum over the devices that share the weight."""


def make_op(kind: str, program: Program) -> Any:
    """Returns a local op of a kind: with a formula, a forward, a jvp rule, or JAX's own derivative."""
    results = ", ".join(["Tensor"] * program.results)
    op = custom_op(program.run, schema=f"(Tensor x, Tensor w) -> ({results})", compile=True)
    if kind == "derive":
        op.register_autograd("derive")
    elif kind == "jvp":
        op.register_jvp(lambda primals, tangents: jax.jvp(program.run, primals, tangents))
    elif kind == "forward":
        op.register_autograd(
            lambda ctx, *grads: program.pull(*ctx.saved_tensors[1:], *grads), forward=_bind_forward(program)
        )
    else:
        op.register_autograd(
            lambda ctx, *grads: program.pull(*ctx.saved_tensors, *grads),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        )
    return op


def _bind_forward(program: Program) -> Callable[..., Any]:
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(jnp.sin(x), x, w)
        return program.run(x, w)

    return forward


def make_control(kind: str, program: Program) -> Any:
    """Returns the function with the same rules, made with JAX alone, for a ``shard_map`` without types."""
    if kind in ("derive", "jvp"):
        return program.run
    control = jax.custom_vjp(program.run)
    control.defvjp(
        lambda x, w: (control(x, w), (x, w)), lambda saved, grads: program.pull(*saved, *_list(grads))
    )
    return control


def _list(grads: Any) -> Any:
    return grads if isinstance(grads, tuple) else (grads,)
