"""The paths of a kernel, and the mesh axes that they reduce."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from oplib.library import custom_op
from oplib.library.axes.paths import find_paths
from tests.library.axes.shards import make_mesh

pytestmark = pytest.mark.devices(8)
ALIKE, SUMMED = frozenset[str](), frozenset({"i"})


def find(function: Any) -> list[set[Any]]:
    """Returns for each result the paths from x, which varies, and from w, which does not."""
    seen: list[Any] = []

    def inside(x: Any, w: Any) -> Any:
        seen.extend(find_paths(jax.jit(function).trace(x, w).jaxpr, 2))
        return w

    jax.shard_map(inside, mesh=make_mesh(), in_specs=(P("i"), P()), out_specs=P())(jnp.ones(8), jnp.ones(()))
    return list(map(set, seen))


def add_in_while(x: Any, w: Any) -> Any:
    def step(carry: Any) -> Any:
        return carry[0] + 1, carry[1] + lax.psum(x.sum() * w, "i")

    return lax.while_loop(lambda carry: carry[0] < 3, step, (0, 0.0))[1]


def choose(x: Any, w: Any) -> Any:
    return lax.cond(w > 0, lambda: lax.psum(x.sum(), "i"), lambda: w)


nested = custom_op(lambda x, w: (lax.psum(x * w, "i"), w), schema="(Tensor x, Tensor w) -> (Tensor, Tensor)")

CASES = {
    "each result has its own": (lambda x, w: (x * 2, w * 3), [{(0, ALIKE)}, {(1, ALIKE)}]),
    "a sum over devices": (lambda x, w: lax.psum(x * w, "i"), [{(0, SUMMED), (1, SUMMED)}]),
    "of several values at once": (
        lambda x, w: lax.psum((x, w), "i"),
        [{(0, SUMMED)}, {(1, SUMMED)}],
    ),
    "a sum beside a value": (lambda x, w: w + lax.psum(x * w, "i"), [{(0, SUMMED), (1, SUMMED), (1, ALIKE)}]),
    "carries of a scan": (
        lambda x, w: lax.scan(lambda carry, one: ((carry[1], carry[0]), None), (w, lax.psum(x[0], "i")), x)[
            0
        ],
        [{(1, ALIKE), (0, SUMMED)}] * 2,
    ),
    "a while loop": (add_in_while, [{(0, SUMMED), (1, SUMMED)}]),
    "branches": (choose, [{(0, SUMMED), (1, ALIKE)}]),
    "calls of ops": (lambda x, w: nested(x, w), [{(0, SUMMED), (1, SUMMED)}, {(1, ALIKE)}]),
    "derivatives of others": (
        lambda x, w: jax.jvp(jax.jit(lambda w: lax.psum(x * w, "i")), (w,), (w,))[1],
        [{(0, SUMMED), (1, SUMMED)}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_paths(name: str) -> None:
    function, due = CASES[name]
    assert find(function) == due
