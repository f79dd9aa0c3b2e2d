"""Ops in ``shard_map`` have the values, gradients and varying axes of the same functions without ops."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.library.batching_and_sharding.shards import make_mesh
from tests.library.matrix.collective_ops import AXIS, COUNT, PROGRAMS, make_control, make_op

pytestmark = [pytest.mark.devices(COUNT), pytest.mark.spec("D.31")]
KINDS = "formula", "forward", "jvp", "derive"
X, W = jnp.linspace(-1.0, 1.3, 16), jnp.array([1.5, 0.5, -0.7, 1.1])
SPECS = {"mixed": (P(AXIS), P()), "replicated": (P(), P()), "sharded": (P(AXIS), P(AXIS))}


def spread(function: Callable[..., Any], specs: Any, out_specs: Any, *, check_vma: bool = True) -> Any:
    return jax.shard_map(
        function, mesh=make_mesh(shape=(COUNT,)), in_specs=specs, out_specs=out_specs, check_vma=check_vma
    )


def measure(op: Any, x: Any, w: Any, *, skips: Collection[str] = ()) -> dict[str, Any]:
    """Returns what one device computes with an op, by name."""

    def loss(x: Any, w: Any) -> Any:
        return sum((each * jnp.cos(each)).sum() for each in jax.tree.leaves(op(x, w)))

    def total(x: Any, w: Any) -> Any:
        return lax.psum(loss(x, w), AXIS)

    def slope(x: Any, w: Any) -> Any:
        by_x, by_w = jax.grad(total, (0, 1))(x, w)
        return (by_x * x).sum() + by_w**2

    def mapped(x: Any, w: Any) -> Any:
        return jax.vmap(loss, (0, None))(jnp.stack([x, 2 * x]), w).sum()

    cells: dict[str, Callable[[], Any]] = {
        "value": lambda: op(x, w),
        "gradient": lambda: jax.grad(loss, (0, 1))(x, w),
        "gradient by the weight": lambda: jax.grad(loss, 1)(x, w),
        "gradient of a psum": lambda: jax.grad(total, (0, 1))(x, w),
        "second derivative": lambda: jax.grad(slope, (0, 1))(x, w),
        "checkpoint": lambda: jax.grad(jax.checkpoint(loss), (0, 1))(x, w),
        "vmap": lambda: jax.grad(mapped, (0, 1))(x, w),
        "jvp": lambda: jax.jvp(op, (x, w), (jnp.cos(x), w))[1],
        "jvp of the gradient": lambda: jax.jvp(jax.grad(total, 1), (x, w), (jnp.cos(x), w))[1],
    }
    return {name: cell() for name, cell in cells.items() if name not in skips}


def run(op: Any, specs: Any, *, check_vma: bool, skips: Collection[str] = ()) -> tuple[Any, Any]:
    """Returns the results of all devices, and their types."""
    types: list[Any] = []

    def inside(x: Any, w: Any) -> Any:
        found = measure(op, x, w[0], skips=skips)
        types.append(jax.tree.map(lambda each: str(jax.typeof(each)), found))
        return jax.tree.map(lambda each: each[None], found)

    def outside(x: Any, w: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            return sum((each**2).sum()[None] for each in jax.tree.leaves(op(x, w[0])))

        return spread(loss, specs, P(AXIS), check_vma=check_vma)(x, w).sum()

    both = jax.jit(
        lambda x, w: (
            spread(inside, specs, P(AXIS), check_vma=check_vma)(x, w),
            jax.grad(outside, (0, 1))(x, w),
        )
    )
    return both(X, W if specs[1] == P(AXIS) else W[:1]), types[0]


@cache
def run_control(name: str, spec: str) -> tuple[Any, Any]:
    """Returns what the function computes without the op."""
    return run(PROGRAMS[name].run, SPECS[spec], check_vma=True)


CELLS = [
    pytest.param(
        name, kind, spec, marks=() if spec == "mixed" and kind in ("formula", "derive") else pytest.mark.slow
    )
    for name in PROGRAMS
    for kind in KINDS
    for spec in SPECS
]


@pytest.mark.matrix(4)
@pytest.mark.parametrize(("name", "kind", "spec"), CELLS)
def test_with_types_all_is_as_without_the_op(name: str, kind: str, spec: str) -> None:
    found, types = run(make_op(kind, PROGRAMS[name]), SPECS[spec], check_vma=True)
    due, due_types = run_control(name, spec)
    assert types == due_types
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5), found, due)


@pytest.mark.matrix(4)
@pytest.mark.parametrize(("name", "kind", "spec"), CELLS)
def test_without_types_all_is_as_with_the_same_rules_of_jax(name: str, kind: str, spec: str) -> None:
    program, skips = PROGRAMS[name], set[str]()
    if kind in ("formula", "forward"):  # a custom_vjp has no forward mode
        skips = {"jvp", "jvp of the gradient"}
        if program.results > 1:  # JAX 0.10 counts a result that a batch shares once for each example
            skips.add("vmap")
    found, _ = run(make_op(kind, program), SPECS[spec], check_vma=False, skips=skips)
    due, _ = run(make_control(kind, program), SPECS[spec], check_vma=False, skips=skips)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5), found, due)
