"""The cost of views, and of writes through them, over the compiled function of arrays that does the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

import oplib

from .rounds import Case, Effort, compare
from .sample_ops import make_arrays, make_constants, make_leaves
from .table import Row

TITLE = "views, and writes through them, over the bare cached jit"
CONTROL = "jax.jit of the same on arrays"
DONATED = "jax.jit of the same, donated"
ROW = 3
LARGE = (2**14, 2**10)  # 64 MB


def measure(effort: Effort) -> Iterator[Row]:
    """Yields one row after another; writes into a large Tensor and below many views have bounds."""
    (array,) = arrays = make_arrays(1)
    (plain,) = make_constants(arrays)
    (leaf,) = make_leaves(arrays)
    take, turn, add = jax.jit(_take), jax.jit(_turn), jax.jit(_add_to_row)
    for what, subject, bare in (
        ("x[3], not read", Case(_take, plain), Case(take, array)),
        ("x[3], read", Case(_take_and_read, plain), Case(take, array)),
        ("x.t(), read", Case(_turn_and_read, plain), Case(turn, array)),
        ("x[3] on the tape, read", Case(_take_and_read, leaf), Case(take, array)),
        ("x[3] += 1.0", Case(_write_row, plain), Case(add, array)),
    ):
        yield Row(what, CONTROL, None, compare(subject, bare, effort))
    yield Row(
        "a copy, x[3] *= 2.0 and backward", "the same with a product", None, _compare_steps(leaf, effort)
    )
    few, many = (_make_viewed(array, count) for count in (1, 1000))
    for what, write in (("x.add_(1.0)", _add_one), ("x[3] = 1.0", _set_row_to_one)):
        cost = compare(Case(write, *many), Case(write, *few), effort)
        yield Row(f"{what} with 1,000 views", "the same with one view", 1.5, cost)
    row, whole = oplib.ones(LARGE[1]), oplib.ones(*LARGE)
    for what, bound, write, by_hand, operand in (
        ("x[3] = row, of 64 MB", 20.0, _set_row, _set_array_row, row),
        ("x.add_(y), of 64 MB", None, _add_in_place, jnp.add, whole),
    ):
        own = _Donating(by_hand, operand.array)
        yield Row(what, DONATED, bound, compare(Case(write, oplib.zeros(*LARGE), operand), Case(own), effort))


def _compare_steps(leaf: oplib.Tensor, effort: Effort) -> Any:
    return compare(Case(_step_in_place, leaf), Case(_step_out_of_place, leaf), effort)


def _make_viewed(array: jax.Array, count: int) -> tuple[oplib.Tensor, list[oplib.Tensor]]:
    """Returns a Tensor and views of it, which are not read."""
    base = oplib.tensor(array)
    return base, [base[index % ROW] for index in range(count)]


class _Donating:
    """A compiled function that writes into its own array at each call, as one writes it by hand."""

    def __init__(self, function: Any, operand: jax.Array) -> None:
        self._run = jax.jit(function, donate_argnums=0)
        self._array = jnp.zeros(LARGE)
        self._operand = operand

    def __call__(self) -> jax.Array:
        self._array = self._run(self._array, self._operand)
        return self._array


def _set_array_row(x: jax.Array, row: jax.Array) -> jax.Array:
    return x.at[ROW].set(row)


def _set_row(x: oplib.Tensor, row: oplib.Tensor) -> oplib.Tensor:
    x[ROW] = row
    return x[ROW]  # waiting for it leaves the memory to the next write


def _add_in_place(x: oplib.Tensor, y: oplib.Tensor) -> oplib.Tensor:
    x.add_(y)
    return x[ROW]


def _add_one(x: oplib.Tensor, _: list[oplib.Tensor]) -> oplib.Tensor:
    return x.add_(1.0)


def _set_row_to_one(x: oplib.Tensor, _: list[oplib.Tensor]) -> oplib.Tensor:
    x[ROW] = 1.0
    return x


def _take(x: Any) -> Any:
    return x[ROW]


def _turn(x: Any) -> Any:
    return x.T


def _add_to_row(x: Any) -> Any:
    return x.at[ROW].add(1.0)


def _take_and_read(x: oplib.Tensor) -> Any:
    return x[ROW].array


def _turn_and_read(x: oplib.Tensor) -> Any:
    return x.t().array


def _write_row(x: oplib.Tensor) -> Any:
    x[ROW] += 1.0
    return x


def _step_in_place(leaf: oplib.Tensor) -> Any:
    copy = leaf.clone()
    copy[ROW] *= 2.0
    return _differentiate(copy, leaf)


def _step_out_of_place(leaf: oplib.Tensor) -> Any:
    return _differentiate(leaf.clone() * 2.0, leaf)


def _differentiate(result: oplib.Tensor, leaf: oplib.Tensor) -> Any:
    result.sum().backward()
    grad, leaf.grad = leaf.grad, None
    return grad
