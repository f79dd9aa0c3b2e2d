"""Random sums of terms with collectives, in a ``shard_map``, beside the same function without an op."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from oplib.errors import AutogradError
from oplib.library import custom_op
from tests import seed
from tests.library.batching_and_sharding.shards import make_mesh

pytestmark = [pytest.mark.devices(4), pytest.mark.slow]
COUNT = 4
OPERANDS = jnp.arange(4.0) * 0.3 + 0.2, jnp.arange(4.0) * -0.2 + 0.7, jnp.float32(1.3), jnp.float32(0.6)


class Term(NamedTuple):
    """A term of two numbers x and y that vary, and two numbers w and v that all devices share.

    Attributes:
        run: the value.
        pull: the gradients by x, y, w and v, from a cotangent and the operands.
    """

    run: Callable[..., Any]
    pull: Callable[..., tuple[Any, ...]]


def total(value: Any) -> Any:
    return lax.psum(value, "i")


def mean(value: Any) -> Any:
    return lax.pmean(value, "i")


SHARED = (
    Term(lambda x, y, w, v: w**2, lambda g, x, y, w, v: (0, 0, 2 * g * w, 0)),
    Term(lambda x, y, w, v: w * v, lambda g, x, y, w, v: (0, 0, g * v, g * w)),
    Term(lambda x, y, w, v: total(x * w), lambda g, x, y, w, v: (g * w, 0, g * x, 0)),
    Term(lambda x, y, w, v: total(x * y), lambda g, x, y, w, v: (g * y, g * x, 0, 0)),
    Term(lambda x, y, w, v: total(w * v), lambda g, x, y, w, v: (0, 0, g * v, g * w)),
    Term(lambda x, y, w, v: mean(x) * v, lambda g, x, y, w, v: (g * v / COUNT, 0, 0, g * mean(x))),
    Term(
        lambda x, y, w, v: total(x * y) * w, lambda g, x, y, w, v: (g * y * w, g * x * w, g * total(x * y), 0)
    ),
)
VARYING = (
    Term(lambda x, y, w, v: x * w, lambda g, x, y, w, v: (g * w, 0, g * x, 0)),
    Term(lambda x, y, w, v: y * 3, lambda g, x, y, w, v: (0, 3 * g, 0, 0)),
)
IN_VARYING = (
    Term(lambda x, y, w, v: w**2, lambda g, x, y, w, v: (0, 0, 2 * g * w, 0)),
    Term(lambda x, y, w, v: w * v, lambda g, x, y, w, v: (0, 0, g * v, g * w)),
    Term(lambda x, y, w, v: total(x * w), lambda g, x, y, w, v: (total(g) * w, 0, total(g) * x, 0)),
    Term(lambda x, y, w, v: mean(x) * y, lambda g, x, y, w, v: (mean(g * y), g * mean(x), 0, 0)),
)
"""Terms beside a varying one: their cotangent varies, so the transpose of a sum is a sum."""


def draw_results(rng: random.Random) -> list[list[Term]]:
    """Draws the results of a function, each a sum of terms."""
    return [
        rng.sample(SHARED, rng.randint(1, 2))
        if rng.random() < 0.55
        else [rng.choice(VARYING), *rng.sample(IN_VARYING, rng.randint(0, 2))]
        for _ in range(rng.randint(2, 3))
    ]


def make_function(results: list[list[Term]]) -> Callable[..., Any]:
    return lambda *operands: tuple(sum(term.run(*operands) for term in terms) for terms in results)


def make_op(results: list[list[Term]]) -> Any:
    returns = ", ".join(["Tensor"] * len(results))
    schema = f"(Tensor x, Tensor y, Tensor w, Tensor v) -> ({returns})"
    op = custom_op(make_function(results), schema=schema, compile=True)

    def pull(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        found = [
            term.pull(g, *ctx.saved_tensors)
            for g, terms in zip(grads, results, strict=True)
            for term in terms
        ]
        return tuple(jnp.zeros(()) + sum(shares) for shares in zip(*found, strict=True))

    op.register_autograd(pull, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    return op


def measure(function: Callable[..., Any], used: list[bool]) -> Any:
    """Returns on all devices: results, gradients, tangents, and second derivatives."""

    def loss(*operands: Any) -> Any:
        results = zip(function(*operands), used, strict=True)
        return sum(jnp.sin(result) for result, has in results if has)

    def squared(*operands: Any) -> Any:
        slopes = jax.grad(lambda *each: total(loss(*each)), (2, 3))(*operands)
        return sum(slope**2 for slope in slopes)

    def inside(x: Any, y: Any, w: Any, v: Any) -> Any:
        operands = x[0], y[0], w, v
        tangents = y[0], x[0], v, w
        found = (
            function(*operands),
            jax.grad(loss, (0, 1, 2, 3))(*operands),
            jax.jvp(loss, operands, tangents)[1],
            jax.grad(squared, (0, 2))(*operands),
        )
        return jax.tree.map(lambda each: each[None], found)

    specs = P("i"), P("i"), P(), P()
    mesh = make_mesh(shape=(COUNT,))
    return jax.jit(jax.shard_map(inside, mesh=mesh, in_specs=specs, out_specs=P("i")))(*OPERANDS)


@pytest.mark.parametrize("number", range(12))
def test_each_number_is_that_without_the_op_or_is_refused(number: int) -> None:
    rng = seed.make_random(f"collectives {number}")
    results = draw_results(rng)
    used = [True, *(rng.random() < 0.8 for _ in results[1:])]
    due = measure(make_function(results), used)
    try:
        found = measure(make_op(results), used)
    except AutogradError as error:
        assert "does not determine the gradient" in str(error)  # noqa: PT017  a number may be refused
        return
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, due)
