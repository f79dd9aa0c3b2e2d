"""The structure of a graph as a key, found in one walk, with the arrays that its formulas read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.nodes.accumulate import AccumulateGrad, refuse_old_gradient
from oplib.autograd.nodes.hook_kinds import describe_hooks
from oplib.autograd.nodes.node import Edge, TapeNode
from oplib.tensor import Tensor

NO_EDGE = -1
DROPPED_EDGE = -2
HOST_NODE = -3
NOT_RUN = -4


class GraphWalk:
    """One look at each node of a graph.

    The key holds no object of the graph: plans and classes stand in it by their tokens.

    Attributes:
        nodes: all nodes that get gradients, in the order of discovery. A node is known by its index here.
        key: the structure, as a flat list.
        operands: the arrays that the formulas read. Starts of views are tuples of numbers.
        gradients: the ``grad`` of each leaf that has one.
        node: the node at which the walk is.
    """

    __slots__ = ("gradients", "key", "node", "nodes", "operands")

    def __init__(self) -> None:
        self.nodes: list[TapeNode] = []
        self.key: list[Any] = []
        self.operands: list[Any] = []
        self.gradients: list[Any] = []
        self.node: TapeNode | None = None

    def walk(self, roots: Sequence[Edge], plan: RunPlan) -> None:
        """Walks over the graph, from the edges where gradients enter.

        Raises:
            SavedTensorError: a saved value is freed, or has been written in place.
            AutogradError: a leaf has got a history.
        """
        nodes, key, operands = self.nodes, self.key, self.operands
        members, captures = plan.members, plan.captures
        index: dict[TapeNode, int] = {}
        numbers: list[int] = []
        key.append(plan.captures_count)
        self._enter_roots(roots, index)
        for self.node in nodes:  # grows while it is walked
            node: Any = self.node
            if captures and node in captures:
                key.append(tuple(captures[node]))
            if node.has_hooks:
                key.append(describe_hooks(node))
            if node.__class__ is AccumulateGrad:
                key.append(NOT_RUN if captures and node not in plan.needed else self._enter_leaf(node))
                continue
            numbers.append(node.sequence_nr)
            if captures and node not in plan.needed:
                key.append(NOT_RUN)
                continue
            token = node.read_operands(operands)
            edges = node.edges
            key.append((HOST_NODE, node.class_token, len(edges)) if token is None else token)
            for edge in edges:
                if edge is None:
                    key.append(NO_EDGE)
                    continue
                target, slot = edge
                number = index.get(target)
                if number is None:
                    if members is not None and target not in members:
                        key.append(DROPPED_EDGE)
                        continue
                    number = index[target] = len(nodes)
                    nodes.append(target)
                key.append((number, slot) if slot else number)
        key.append(tuple(sorted(range(len(numbers)), key=numbers.__getitem__)))

    def share_operands(self) -> tuple[list[Any], Sequence[int]]:
        """Returns each operand once, and the index of every operand among them.

        A program with fewer arguments is called faster. The key records the operands that are one array,
        because they belong to the structure of a graph. Numbers do not count: two of
        them may be equal by chance.
        """
        operands = self.operands
        names = list(map(id, operands))
        known = dict(zip(names, operands, strict=True))
        if len(known) == len(operands):
            return operands, range(len(operands))
        is_shared = {name: getattr(operand, "ndim", 0) > 0 for name, operand in known.items()}
        numbers: dict[int, int] = {}
        distinct: list[Any] = []
        indices: list[int] = []
        for name, operand in zip(names, operands, strict=True):
            number = numbers.get(name)
            if number is None:
                number = len(distinct)
                distinct.append(operand)
                if is_shared[name]:
                    numbers[name] = number
            indices.append(number)
        if len(distinct) < len(operands):
            self.key.append(tuple(indices))
        return distinct, indices

    def _enter_roots(self, roots: Sequence[Edge], index: dict[TapeNode, int]) -> None:
        for node, slot in roots:
            number = index.get(node)
            if number is None:
                number = index[node] = len(self.nodes)
                self.nodes.append(node)
            self.key.append((number, slot))

    def _enter_leaf(self, node: Any) -> Any:
        node.check()
        grad = node.variable._grad
        if grad is not None:
            if grad._storage.spec.shape != node.variable._storage.spec.shape:
                refuse_old_gradient("AccumulateGrad", grad, node.variable)
            self.gradients.append(grad)
        return describe_leaf(node.variable)


def describe_leaf(leaf: Tensor) -> tuple[Any, ...]:
    """Returns what a program must know of a leaf.

    That is whether it requires grad, the number of its post-accumulate hooks, its shape and dtype, and the
    shape and dtype of its ``grad`` or None.
    """
    spec, grad, hooks = leaf._storage.spec, leaf._grad, leaf._post_accumulate_hooks
    held = None if grad is None else (grad._storage.spec.shape, grad._storage.spec.dtype)
    return leaf._requires_grad, len(hooks) if hooks else 0, spec.shape, spec.dtype, held
