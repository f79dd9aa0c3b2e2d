"""The cost of ``oplib.vmap``, over the compiled ``jax.vmap`` of the same mathematics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

import oplib

from .rounds import Case, Effort, compare
from .sample_ops import make_arrays
from .table import Row

TITLE = "oplib.vmap of functions of 5 and 22 ops, over the compiled jax.vmap of the same"
SHORT, LONG = 1, 18  # rounds of the loop below: 5 and 22 ops

Function = Callable[..., Any]


def measure(effort: Effort) -> Iterator[Row]:
    """Yields forward, backward and second order of both lengths; none has a bound."""
    array, weights = make_arrays(2)
    for rounds in (SHORT, LONG):
        mine = oplib.vmap(_make_example(oplib.sin, oplib.tanh, rounds), in_dims=(0, None))
        its = jax.vmap(_make_example(jnp.sin, jnp.tanh, rounds), in_axes=(0, None))
        leaves = [oplib.tensor(each, requires_grad=True) for each in (array, weights)]
        plain = [oplib.tensor(each) for each in (array, weights)]
        for order, subject, control in (
            ("forward", Case(mine, *plain), Case(jax.jit(its), array, weights)),
            ("forward and backward", Case(_record(mine), *leaves), Case(_first(its), array, weights)),
            ("second order", Case(_record_twice(mine), *leaves), Case(_second(its), array, weights)),
        ):
            what = f"vmap of {rounds + 4} ops, {order}"
            yield Row(what, "jax.jit(jax.vmap)", None, compare(subject, control, effort))


def _make_example(sine: Function, squash: Function, rounds: int) -> Function:
    """Returns a function of one example that calls ``rounds + 4`` ops."""

    def example(x: Any, weights: Any) -> Any:
        hidden = sine(x) * weights.sum()
        for _ in range(rounds):
            hidden = squash(hidden)
        return hidden.sum()

    return example


def _record(function: Function) -> Function:
    def call(*leaves: oplib.Tensor) -> Any:
        return [each.array for each in oplib.autograd.grad(function(*leaves).sum(), leaves)]

    return call


def _record_twice(function: Function) -> Function:
    def call(*leaves: oplib.Tensor) -> Any:
        slopes = oplib.autograd.grad(function(*leaves).sum(), leaves, create_graph=True)
        total = (slopes[0] * slopes[0]).sum() + (slopes[1] * slopes[1]).sum()
        return [each.array for each in oplib.autograd.grad(total, leaves)]

    return call


def _first(function: Function) -> Function:
    return jax.jit(jax.grad(lambda *arrays: function(*arrays).sum(), argnums=(0, 1)))


def _second(function: Function) -> Function:
    slopes = jax.grad(lambda *arrays: function(*arrays).sum(), argnums=(0, 1))
    return jax.jit(
        jax.grad(lambda *arrays: sum((each * each).sum() for each in slopes(*arrays)), argnums=(0, 1))
    )
