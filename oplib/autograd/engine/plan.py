"""The plan of a run: which nodes it executes, and how many gradients each of them waits for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from oplib.autograd.nodes.node import Edge, Node, TapeNode

# Shared by the plans of runs over all leaves, which most are. Nothing is added to them.
_NO_CAPTURES: dict[TapeNode, list[tuple[int, int]]] = {}
_NO_NODES: set[TapeNode] = set()


class RunPlan:
    """The plan of one run, made before any node runs. It is iterative: a graph may be a million nodes deep.

    Attributes:
        roots: the edges that the run starts from.
        waiting: the number of gradients still to come, for nodes that receive more than one. The run counts
            down.
        members: the nodes that receive gradients, and how many, if the run is restricted to paths to
            requested inputs; else None, for all nodes reached from the roots.
        needed: the members that run.
        captures: for a node, the slots whose gradients are returned, each with the index of the input.
        captures_count: the number of inputs whose gradient is returned.
    """

    captures: dict[TapeNode, list[tuple[int, int]]] = _NO_CAPTURES
    captures_count: int = 0
    members: dict[TapeNode, int] | None = None
    needed: set[TapeNode] = _NO_NODES

    def __init__(self, roots: Sequence[Edge], inputs: Sequence[Edge] = (), *, capture: bool = False) -> None:
        """Plans the run.

        Args:
            roots: the edges where gradients enter.
            inputs: the edges whose gradients are wanted; empty means all leaves.
            capture: the gradients of ``inputs`` are returned. Otherwise the nodes of ``inputs`` run and store
                them.
        """
        self.roots = roots
        if not capture and not inputs:
            self.waiting, self._reached = _count_arrivals(roots)
            return
        captures: dict[TapeNode, list[tuple[int, int]]] = {}
        for place, (node, slot) in enumerate(inputs):
            captures.setdefault(node, []).append((slot, place))
        self.members, self.needed, self.waiting = _find_paths(roots, captures)
        if capture:
            self.captures, self.captures_count = captures, len(inputs)
        else:
            self.needed.update(captures)

    def executes(self, node: Node) -> bool:
        """Returns whether the run has executed ``node`` or will execute it."""
        if self.members is not None:
            return node in self.needed or node in self.captures
        return node in self._reached

    def find_order(self) -> list[TapeNode]:
        """Returns all nodes in the order of their execution, including those that have run."""
        if self.members is None:
            waiting, _ = _count_arrivals(self.roots)
        else:
            waiting = {node: count for node, count in self.members.items() if count > 1}
        order: list[TapeNode] = []
        ready: list[tuple[int, int, TapeNode]] = []
        arrivals = itertools.count()
        edges: Sequence[Edge | None] = self.roots
        while True:
            for edge in edges:
                if edge and (self.members is None or edge[0] in self.needed):
                    node = edge[0]
                    waiting[node] = waiting.get(node, 1) - 1
                    if not waiting[node]:
                        heappush(ready, (-node.sequence_nr, next(arrivals), node))
            if not ready:
                return order
            order.append(heappop(ready)[2])
            edges = order[-1].edges


def _count_arrivals(roots: Sequence[Edge]) -> tuple[dict[TapeNode, int], set[TapeNode]]:
    """Counts the edges that lead to each node reached from ``roots``.

    Returns:
        The counts above one, which are few in most graphs, and all reached nodes.
    """
    several: dict[TapeNode, int] = {}
    reached: set[TapeNode] = set()
    ahead: list[TapeNode] = []
    edges: Sequence[Edge | None] = roots
    while True:
        for edge in edges:
            if edge is None:
                continue
            node = edge[0]
            if node in reached:
                several[node] = several.get(node, 1) + 1
            else:
                reached.add(node)
                if not node.runs_at_arrival:  # it has edges
                    ahead.append(node)
        if not ahead:
            return several, reached
        edges = ahead.pop().edges


def _find_paths(
    roots: Sequence[Edge], targets: Iterable[TapeNode]
) -> tuple[dict[TapeNode, int], set[TapeNode], dict[TapeNode, int]]:
    """Finds the nodes on paths from ``roots`` to ``targets``.

    Returns:
        The number of gradients that arrive at each of these nodes, those that have a target behind them, and
        the numbers above one.
    """
    parents: dict[TapeNode, list[TapeNode | None]] = {}
    ahead: list[TapeNode] = []
    parent: TapeNode | None = None
    edges: Sequence[Edge | None] = roots
    while True:
        for edge in edges:
            if edge is None:
                continue
            node = edge[0]
            if node in parents:
                parents[node].append(parent)
            else:
                parents[node] = [parent]
                if not node.runs_at_arrival:  # it has edges
                    ahead.append(node)
        if not ahead:
            break
        parent = ahead.pop()
        edges = parent.edges
    members: dict[TapeNode, int] = {}
    several: dict[TapeNode, int] = {}
    needed: set[Any] = set()
    below: list[TapeNode | None] = list(filter(parents.__contains__, targets))
    for reached in below:  # the list gets longer
        if reached is not None and reached not in members:
            above = parents[reached]
            members[reached] = count = len(above)  # a parent of a node on a path is on a path
            if count > 1:
                several[reached] = count
            needed.update(above)
            below += above
    needed.discard(None)
    return members, needed, several
