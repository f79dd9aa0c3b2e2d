"""The cost of a node of a tape, in a large graph compared with a small one."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import oplib
from oplib.autograd.nodes.node import TapeNode

from .rounds import Case, Comparison, Effort, compare
from .sample_ops import make_arrays, make_constants, make_leaves
from .table import Row

LARGE, SMALL = 1_000_000, 10_000


class _Pass(TapeNode):
    """Passes its gradient on, which shows the engine's own cost without arithmetic."""

    results_are_checked = True

    def apply(self, grads: Any, run: Any) -> Any:  # noqa: ARG002  the engine passes it to every node
        return grads


def measure(effort: Effort) -> Iterator[Row]:
    """Yields a row on nodes that only pass a gradient on, and one on multiplications."""
    few = replace(effort, seconds=0.0, least_rounds=3)  # each round takes as long as the large graph
    cases = [Case(_run_again, make_chain(count), units=count) for count in (LARGE, SMALL)]
    what = f"{LARGE:,} nodes that pass a gradient on"
    yield Row(what, f"{SMALL:,} of them", 1.5, compare(*cases, few))
    del cases
    gc.collect()
    what = f"{LARGE:,} multiplications, forward and backward"
    yield Row(what, f"{SMALL:,} of them", 1.5, _compare_products(effort))


def _run_again(root: oplib.Tensor) -> None:
    oplib.autograd.backward(root, retain_graph=True)


def make_chain(count: int) -> oplib.Tensor:
    """Makes a chain of nodes that compute nothing, from a leaf to the scalar root of its backward."""
    (leaf,) = make_leaves(make_arrays(1, ()))
    node, slot = oplib.autograd.graph.get_gradient_edge(leaf)[:2]
    metadata: Sequence[Any] = (leaf.array,)
    for number in range(count):
        above = object.__new__(_Pass)
        above.edges = ((node, slot),)
        above.input_metadata = metadata
        above.sequence_nr = number
        node, slot = above, 0
    root = leaf.detach()
    root._requires_grad = True
    root._grad_fn = node
    return root


def _compare_products(effort: Effort) -> Comparison:
    """One round, because a million products take half a minute. The small graph runs before and after it."""
    (leaf,), (factor,) = make_leaves(make_arrays(1, ())), make_constants(make_arrays(1, ()))

    def run(count: int) -> Any:
        value = leaf
        for _ in range(count):
            value = value * factor
        value.backward()
        return leaf.grad

    small, large = Case(run, SMALL, units=SMALL), Case(run, LARGE, units=LARGE)
    small.time(1, effort.clock)  # compiles
    before = [small.time(1, effort.clock) for _ in range(10)]
    seconds = large.time(1, effort.clock)
    after = [small.time(1, effort.clock) for _ in range(10)]
    return Comparison((seconds,), (statistics.median(before + after),))
