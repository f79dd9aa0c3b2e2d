"""The paths of a kernel, and the mesh axes that they reduce."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from oplib.library import custom_op
from oplib.library.batching_and_sharding.paths import find_paths
from tests.library.batching_and_sharding.shards import make_mesh

pytestmark = pytest.mark.devices(8)
ALIKE, SUMMED = frozenset[str](), frozenset({"i"})


def find(function: Any) -> list[set[Any]]:
    """Returns for each result the paths from x, which varies, and from w, which does not."""
    seen: list[Any] = []

    def inside(x: Any, w: Any) -> Any:
        seen.extend(find_paths(jax.jit(function).trace(x, w).jaxpr, 2, [SUMMED, ALIKE]))
        return w

    jax.shard_map(inside, mesh=make_mesh(), in_specs=(P("i"), P()), out_specs=P())(jnp.ones(8), jnp.ones(()))
    return seen


def add_in_while(x: Any, w: Any) -> Any:
    def step(carry: Any) -> Any:
        return carry[0] + 1, carry[1] + lax.psum(x.sum() * w, "i")

    return lax.while_loop(lambda carry: carry[0] < 3, step, (0, 0.0))[1]


def choose(x: Any, w: Any) -> Any:
    return lax.cond(w > 0, lambda: lax.psum(x.sum(), "i"), lambda: w)


nested = custom_op(
    lambda x, w: (lax.psum(x * w, "i"), w * 1), schema="(Tensor x, Tensor w) -> (Tensor, Tensor)"
)

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
    assert [
        {(path.operand, path.reduced) for path in paths if path.operand is not None}
        for paths in find(function)
    ] == due


DETAILS: dict[str, tuple[Any, set[tuple[int, int, bool]]]] = {
    "a sum and a product": (lambda x, w: lax.psum(x * w, "i"), {(0, 1, False), (1, 1, True)}),
    "sums in a row": (lambda x, w: lax.psum(w + lax.psum(w, "i"), "i"), {(1, 1, False), (1, 2, False)}),
    "a loop of sums": (
        lambda x, w: lax.fori_loop(0, 9, lambda i, c: lax.psum(c, "i"), w),
        {(1, 1, False), (1, 2, False), (1, 3, False)},
    ),
    "a gather": (lambda x, w: lax.all_gather(w, "i") + x, {(0, 0, False), (1, 1, False)}),
    "a maximum, which is no sum": (lambda x, w: lax.pmax(x, "i") * w, {(0, 0, False), (1, 0, False)}),
    "the index of the device": (lambda x, w: w * lax.axis_index("i"), {(1, 0, True)}),
    "a factor that was cast": (
        lambda x, w: w * lax.pcast(jnp.ones(()), "i", to="varying"),
        {(1, 0, False)},
    ),
    "a selection": (lambda x, w: jnp.where(x > 0, w, 0), {(0, 0, False), (1, 0, True)}),
    "branches of a selection": (
        lambda x, w: lax.cond(x[0] > 0, lambda w: w, lambda w: 2 * w, lax.pcast(w, "i", to="varying")),
        {(1, 0, True)},
    ),
    "a write": (lambda x, w: x.at[0].add(w), {(0, 0, False), (1, 0, False)}),
    "a write at an index of the device": (
        lambda x, w: jnp.zeros(3).at[lax.axis_index("i")].add(w),
        {(1, 0, True)},
    ),
}
"""A function, and for each of its paths: the operand, the number of sums, and whether it is scaled."""


@pytest.mark.parametrize("name", DETAILS)
def test_a_path_counts_its_sums_and_names_the_axes_of_its_factors(name: str) -> None:
    function, due = DETAILS[name]
    (paths,) = find(function)
    found = {(each.operand, each.count_sums("i"), "i" in each.scaled) for each in paths}
    assert {each for each in found if each[0] is not None} == due
