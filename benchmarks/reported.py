"""Rows without a bound, for information: other kinds of kernels, lists, second order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import oplib

from .rounds import Case, Effort, compare
from .sample_ops import make_arrays, make_constants, make_leaves, soft_product
from .table import Row

TITLE = "reported, without a bound"
PARAMETERS = 20
DEPTH = 100


@oplib.custom_op("bench::on_host")
def on_host(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computes a host kernel: plain numpy."""
    return np.tanh(x * y)


@oplib.custom_op("bench::eager")
def eager(x: oplib.Tensor, y: oplib.Tensor) -> oplib.Tensor:
    """Computes an eager kernel: Python that runs on every call, here with two built-in ops."""
    return (x * y).tanh()


@oplib.custom_op("bench::descend", mutates_args=("parameters",), operand=("rate",))
def descend(parameters: list[jax.Array], grads: list[jax.Array], rate: float) -> list[jax.Array]:
    """Computes one optimiser step over all parameters, and returns their new values."""
    return [parameter - rate * grad for parameter, grad in zip(parameters, grads, strict=True)]


def measure(effort: Effort) -> Iterator[Row]:
    """Yields one row after another."""
    arrays = make_arrays(2)
    for what, control, (subject, bare) in (
        ("host op", "its numpy lines", _pair_host(arrays)),
        ("eager op of two built-in ones", "one jax.jit of both", _pair_eager(arrays)),
        (f"optimiser op over {PARAMETERS} parameters", "jax.jit", _pair_optimiser()),
        ("create_graph, per node", "a plain backward", _pair_orders()),
        ("plain JAX: eager jax.vjp, forward and backward", "jax.jit(kernel)", _pair_eager_vjp(arrays)),
    ):
        yield Row(what, control, None, compare(subject, bare, effort))


def _pair_host(arrays: list[jax.Array]) -> tuple[Case, Case]:
    return Case(on_host, *make_constants(arrays)), Case(_tanh, *[np.asarray(array) for array in arrays])


def _pair_eager(arrays: list[jax.Array]) -> tuple[Case, Case]:
    bare = jax.jit(lambda x, y: jnp.tanh(x * y))
    return Case(eager, *make_constants(arrays)), Case(bare, *arrays)


def _tanh(x: Any, y: Any) -> Any:
    return np.tanh(x * y)


def _pair_optimiser() -> tuple[Case, Case]:
    parameters, grads = make_arrays(PARAMETERS), make_arrays(PARAMETERS)

    def step(parameters: Any, grads: Any, rate: Any) -> Any:
        return [parameter - rate * grad for parameter, grad in zip(parameters, grads, strict=True)]

    mine = Case(descend, make_constants(parameters), make_constants(grads), 1e-6)
    return mine, Case(jax.jit(step), parameters, grads, jnp.float32(1e-6))


def _pair_orders() -> tuple[Case, Case]:
    """Measures a backward over one graph, plain and recorded; every gradient in it depends on the leaf."""
    (leaf,) = make_leaves(make_arrays(1))
    value = leaf
    for _ in range(DEPTH):
        value = value * leaf
    start = oplib.ones_like(leaf.detach())

    def run(create_graph: bool) -> Any:
        return oplib.autograd.grad(value, leaf, start, retain_graph=True, create_graph=create_graph)[
            0
        ].detach()

    return Case(run, True, units=DEPTH), Case(run, False, units=DEPTH)


def _pair_eager_vjp(arrays: list[jax.Array]) -> tuple[Case, Case]:
    """Measures forward and backward of one op in plain JAX, op by op."""

    def run(x: Any, y: Any) -> Any:
        output, pull = jax.vjp(soft_product, x, y)
        return pull(output)[0]

    return Case(run, *arrays), Case(jax.jit(soft_product), *arrays)
