"""The inputs of a jaxpr that are read, and the outputs that are inputs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd.array_functions.liveness import (
    drop_dead,
    find_dependent,
    find_forwarded,
    find_live_inputs,
)
from oplib.library.batching_and_sharding.bodies import find_bodies


def jaxpr_of(function: Any, count: int) -> Any:
    return jax.jit(function).trace(*[jnp.ones(2) for _ in range(count)]).jaxpr.jaxpr


@pytest.mark.parametrize(
    ("function", "live"),
    [
        (lambda x, y: x * y, (True, True)),
        (lambda x, y: x, (True, False)),
        (lambda x, y: jnp.sin(x) * 0 + y, (True, True)),
        (lambda x, y: jnp.zeros(2), (False, False)),
        (lambda x, y: (jnp.sin(y), 1.0), (False, True)),
        (lambda x, y: jax.jit(lambda a, b: (jnp.sin(a), b))(x, y)[1], (False, True)),
        (lambda x, y: jax.jit(lambda a, b: a * b)(x, y) * 0, (True, True)),
        (
            lambda x, y: jax.lax.cond(x[0] > 0, lambda a, b: (a, b), lambda a, b: (b, b * 2), x, y)[1],
            (True, True),
        ),
        (lambda x, y: jax.lax.platform_dependent(x, y, default=lambda a, b: (a, b + 1))[1], (False, True)),
        (lambda x, y: jax.lax.platform_dependent(x, y, cpu=jnp.add, default=lambda a, b: b), (True, True)),
        (
            lambda x, y: jax.lax.platform_dependent(x, y, cpu=lambda a, b: b * 2, default=lambda a, b: b),
            (False, True),
        ),
        (lambda x, y: jax.checkpoint(lambda a, b: (jnp.sin(a), b))(x, y)[1], (True, True)),
    ],
    ids=[
        "both",
        "one",
        "times zero",
        "none",
        "a literal",
        "inside a call",
        "a whole call",
        "the choice of a branch",
        "one result of a branch",
        "by some branch",
        "by no branch",
        "all of another primitive",
    ],
)
def test_an_input_is_live_if_an_output_depends_on_it(function: Any, live: tuple[bool, ...]) -> None:
    assert find_live_inputs(jaxpr_of(function, 2)) == live


def test_what_is_computed_and_thrown_away_reads_nothing() -> None:
    def wasteful(x: Any, y: Any) -> Any:
        jnp.exp(x)
        return y + 1

    assert find_live_inputs(jaxpr_of(wasteful, 2)) == (False, True)


def test_what_an_effect_reads_is_live() -> None:
    def printing(x: Any, y: Any) -> Any:
        jax.debug.print("{}", x)
        return y

    assert find_live_inputs(jaxpr_of(printing, 2)) == (True, True)


@pytest.mark.parametrize(
    ("function", "places"),
    [
        (lambda x, y: (y, x), (1, 0)),
        (lambda x, y: (x, x), (0, 0)),
        (lambda x, y: (x, y + 1), None),
        (lambda x, y: (x, 1.0), None),
    ],
    ids=["swapped", "twice", "computed", "a literal"],
)
def test_outputs_are_forwarded_if_each_is_an_input(function: Any, places: Any) -> None:
    assert find_forwarded(jaxpr_of(function, 2)) == places


@pytest.mark.parametrize(
    ("function", "dependent", "without_choices"),
    [
        (lambda x, y: (x * y, y, x), (True, False, True), (True, False, True)),
        (lambda x, y: (jnp.where(x > 0, y, 0), x), (True, True), (False, True)),
        (lambda x, y: (jax.jit(jnp.where)(x > 0, y, 0), x), (True, True), (False, True)),
        (lambda x, y: (y / jnp.sum(x > 0).astype(y.dtype), y), (True, False), (False, False)),
        (lambda x, y: (y[jnp.argsort(x)], jnp.sign(x) * y), (True, True), (False, True)),
        (lambda x, y: (jnp.zeros(2), 1.0), (False, False), (False, False)),
        (lambda x, y: (jax.debug.callback(print, x), y)[1:], (False,), (False,)),
    ],
    ids=["products", "a choice", "a choice inside a call", "a count", "places", "constants", "an effect"],
)
def test_an_output_depends_on_an_input_that_it_reads(
    function: Any, dependent: tuple[bool, ...], without_choices: tuple[bool, ...]
) -> None:
    jaxpr = jaxpr_of(function, 2)
    assert find_dependent(jaxpr, (True, False), skips_choices=False) == dependent
    assert find_dependent(jaxpr, (True, False), skips_choices=True) == without_choices


def test_what_nothing_reads_is_dropped_and_effects_and_absent_results_stay(capfd: Any) -> None:
    def function(x: Any, y: Any) -> tuple[Any, ...]:
        jnp.exp(x)
        jax.debug.print("seen {}", jnp.sin(x))
        return None, y + 1, {"y": y}

    smaller = drop_dead(function)
    names = [equation.primitive.name for equation in jaxpr_of(smaller, 2).eqns]
    assert len(names) == 3
    assert {"sin", "add"} < set(names)
    absent, added, held = jax.jit(smaller)(jnp.zeros(2), jnp.ones(2))
    jax.effects_barrier()
    assert capfd.readouterr().out == "seen [0. 0.]\n"
    assert absent is None
    np.testing.assert_array_equal(added, held["y"] + 1)


def count_equations(jaxpr: Any) -> int:
    """Counts equations without those that only contain others: JAX 0.12 inlines a jit later."""
    bodies = [find_bodies(one) for one in getattr(jaxpr, "jaxpr", jaxpr).eqns]
    return sum(sum(map(count_equations, inner)) if inner else 1 for inner in bodies)


def test_a_recorded_and_differentiated_program_has_hardly_more_equations_than_that_of_jax() -> None:
    values = [np.full((4, 4), 0.1 * place, np.float32) for place in range(12)]

    def find_loss(tanh: Any, weights: Any, x: Any) -> Any:
        for weight in weights:
            x = tanh(x @ weight + weight[0])
        return ((x - 1.0) ** 2).mean()

    def record(values: Any, x: Any) -> list[Any]:
        weights = [oplib.Tensor.from_array(value, requires_grad=True) for value in values]
        find_loss(oplib.tanh, weights, oplib.Tensor.from_array(x)).backward()
        return [weight.grad.array for weight in weights if weight.grad is not None]

    by_hand = jax.grad(lambda values, x: find_loss(jnp.tanh, values, x))
    arrays = [*map(jnp.asarray, values)]
    mine, its = (count_equations(jax.make_jaxpr(one)(arrays, arrays[1])) for one in (record, by_hand))
    assert mine <= 1.2 * its
