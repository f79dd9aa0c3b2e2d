"""The plan of a run: which nodes it executes, and how many gradients each of them waits for."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from heapq import heappop, heappush

from oplib.autograd.nodes.node import Edge, Node, TapeNode

# Shared by the plans of runs over all leaves, which most are. Nothing is added to them.
_NO_CAPTURES: dict[TapeNode, list[tuple[int, int]]] = {}
_NO_NODES: set[TapeNode] = set()


class RunPlan:
    """The plan of one run, made before any node runs. It is iterative: a graph may be a million nodes deep.

    Attributes:
        roots: the edges that the run starts from.
        waiting: the number of gradients still to come, for nodes that receive more than one. The run counts
            down. It is None until :meth:`count`.
        members: the nodes that receive gradients, and how many, if the run is restricted to paths to
            requested inputs; else None, for all nodes reached from the roots.
        needed: the members that run.
        captures: for a node, the slots whose gradients are returned, each with the index of the input.
        captures_count: the number of inputs whose gradient is returned.
    """

    __slots__ = ("_reached", "captures", "captures_count", "members", "needed", "roots", "waiting")

    def __init__(self, roots: Sequence[Edge], inputs: Sequence[Edge] = (), *, capture: bool = False) -> None:
        """Plans the run.

        Args:
            roots: the edges where gradients enter.
            inputs: the edges whose gradients are wanted; empty means all leaves.
            capture: the gradients of ``inputs`` are returned. Otherwise the nodes of ``inputs`` run and store
                them.
        """
        self.roots = roots
        self.captures: dict[TapeNode, list[tuple[int, int]]] = _NO_CAPTURES
        self.captures_count = len(inputs) if capture else 0
        self.members: dict[TapeNode, int] | None = None
        self.needed: set[TapeNode] = _NO_NODES
        self._reached: set[TapeNode] | None = None
        self.waiting: dict[TapeNode, int] | None = None
        if not capture and not inputs:
            return
        targets = {node for node, _ in inputs}
        self.members, self.needed = _find_paths(roots, targets)
        if capture:
            self.captures = {}
            for index, (node, slot) in enumerate(inputs):
                self.captures.setdefault(node, []).append((slot, index))
        else:
            self.needed |= targets

    def count(self) -> dict[TapeNode, int]:
        """Counts the gradients that nodes wait for, unless that is done, and returns ``waiting``."""
        if self.waiting is None:
            self.waiting = self._count_again()
        return self.waiting

    def executes(self, node: Node) -> bool:
        """Returns whether the run has executed ``node`` or will execute it."""
        if self.members is not None:
            return node in self.needed or node in self.captures
        if self._reached is None:
            self._reached = _count_arrivals(self.roots)[1]
        return node in self._reached

    def find_order(self) -> list[TapeNode]:
        """Returns all nodes in the order of their execution, including those that have run."""
        waiting = self._count_again()
        order: list[TapeNode] = []
        ready: list[tuple[int, int, TapeNode]] = []
        arrivals = itertools.count()
        edges: Sequence[Edge | None] = self.roots
        while True:
            for node in [
                edge[0] for edge in edges if edge and (self.members is None or edge[0] in self.needed)
            ]:
                waiting[node] = waiting.get(node, 1) - 1
                if not waiting[node]:
                    heappush(ready, (-node.sequence_nr, next(arrivals), node))
            if not ready:
                return order
            order.append(heappop(ready)[2])
            edges = order[-1].edges

    def _count_again(self) -> dict[TapeNode, int]:
        if self.members is None:
            return _count_arrivals(self.roots)[0]
        return {node: count for node, count in self.members.items() if count > 1}


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
                ahead.append(node)
        if not ahead:
            return several, reached
        edges = ahead.pop().edges


def _find_paths(roots: Sequence[Edge], targets: set[TapeNode]) -> tuple[dict[TapeNode, int], set[TapeNode]]:
    """Finds the nodes on paths from ``roots`` to ``targets``.

    Returns:
        The number of gradients that arrive at each of these nodes, and those that have a target behind them.
    """
    parents: dict[TapeNode, list[TapeNode | None]] = {}
    for node, _ in roots:
        parents.setdefault(node, []).append(None)
    reached = list(parents)
    while reached:
        parent = reached.pop()
        for edge in parent.edges:
            if edge is None:
                continue
            node = edge[0]
            if node in parents:
                parents[node].append(parent)
            else:
                parents[node] = [parent]
                reached.append(node)
    ancestors: set[TapeNode] = set()
    below = [node for node in targets if node in parents]
    while below:
        for parent in parents[below.pop()]:
            if parent is not None and parent not in ancestors:
                ancestors.add(parent)
                below.append(parent)
    # a parent of a node on a path is on a path
    return {node: len(parents[node]) for node in ancestors | targets if node in parents}, ancestors
