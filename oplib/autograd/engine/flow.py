"""The flow of gradients through a graph: the loop of the engine.

The flow runs the latest ready node first, and hands gradients along the edges. The engine's ``Run`` computes
the gradients, and compiled autograd computes many of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import prod
from typing import Any, ClassVar

from oplib.autograd.anomaly_mode import refuse_nan
from oplib.autograd.nodes.gradient_representation import ARRAYS, GradientRepresentation
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.autograd.nodes.scopes import enter_scope
from oplib.modes import call_in_grad_mode, modes
from oplib.tensor import upcalls

from .node_hooks import fit_received, run_post_hooks, run_pre_hooks, run_tensor_hooks
from .plan import RunPlan
from .validation import validate_gradients

_MOST_LISTED = 8
"""The gradients that may wait for one compiled call, of which XLA compiles one for each count."""

Ready = tuple[int, int, TapeNode, list[Any]]
"""A node whose gradients have all arrived: its place in the order, and the gradients."""


class Flow:
    """One pass over a graph. Compiled autograd overrides how nodes run.

    Attributes:
        keep_graph: whether saved values stay for another run.
        create_graph: whether the backward pass is recorded.
        representation: the type of the gradients, with its operations.
        plan: the nodes that run, and the number of gradients that each waits for.
        node: the node being executed.
        captured: the gradient of each requested input.
        ready: the nodes that can run, as a heap.
        buffers: the gradients that have arrived at nodes that wait for more.
        is_symbolic: gradients may be values without arrays, so each node takes the path of nodes with hooks.
    """

    is_symbolic: ClassVar[bool] = False

    plan: RunPlan
    representation: GradientRepresentation
    keep_graph: bool
    create_graph: bool
    node: TapeNode | None = None
    captured: list[Any]
    ready: list[Ready]
    buffers: dict[TapeNode, list[Any]]

    def flow(self, edges: Sequence[Edge | None], grads: Gradients) -> None:
        """Hands gradients along the edges and runs each node that is ready, until no node is ready."""
        plan = self.plan
        waiting, members, captures = plan.waiting, plan.members, plan.captures
        keep_graph, watched = self.keep_graph, self.is_symbolic or modes.state.watchers
        ready, arrivals = self.ready, len(self.ready)
        while True:
            for edge, grad in zip(edges, grads):  # noqa: B905  the keyword costs more than the loop
                if edge is None or (members is not None and edge[0] not in members):
                    continue  # not on a path to a requested input
                node, slot = edge
                if node in waiting:
                    if (received := self._collect(waiting, node, slot, grad)) is None:
                        continue
                else:
                    received = [grad] if node.has_one_slot else _put_alone(grad, slot, node)
                if node.runs_at_arrival and not (
                    node.has_hooks or watched or captures or (ready and ready[0][2].runs_at_arrival)
                ):  # a leaf with hooks that came before runs first
                    self.node = node
                    node.apply(received, self)
                    continue
                arrivals += 1
                heappush(ready, (-node.sequence_nr, arrivals, node, received))
            if not ready:
                break
            _, _, node, received = heappop(ready)
            self.node = node
            if captures and node in captures and not self._capture(node, received):
                edges = ()
                continue
            if node.has_hooks or watched or not node.results_are_checked:
                grads = self._run_python(node, received, watched)
            else:
                grads = node.apply(received, self)
            if not keep_graph:
                node.release()
            edges = node.edges
            if node.paths is not None:
                edges, grads = self.close_edges(node, node.paths, received, grads)
        self.node = None

    def close_edges(
        self, node: TapeNode, paths: Sequence[frozenset[int]], received: list[Any], grads: Gradients
    ) -> tuple[Sequence[Edge | None], Gradients]:
        """Takes the edges of a node out of the run to which none of the gradients that have arrived flows.

        Returns:
            The edges along which gradients, or None, are handed on, and these.
        """
        flowing = [indices for indices, grad in zip(paths, received, strict=True) if grad is not None]
        if not flowing:
            return node.edges, grads
        open_indices = frozenset[int]().union(*flowing)
        edges = [edge if index in open_indices else None for index, edge in enumerate(node.edges)]
        last = self._drop([edge for index, edge in enumerate(node.edges) if index not in open_indices])
        return [*edges, *last], [*grads, *[None] * len(last)]

    def _drop(self, edges: Sequence[Edge | None]) -> list[Edge]:
        """Takes edges out of the run, and all nodes that nothing else leads to.

        Returns:
            The edges that were the last to come at nodes where other gradients have arrived.
        """
        waiting, members = self.plan.waiting, self.plan.members
        ahead, last = list(edges), list[Edge]()
        while ahead:
            edge = ahead.pop()
            if edge is None or (members is not None and edge[0] not in members):
                continue
            node = edge[0]
            missing = waiting.get(node, 1)
            if missing > 1:
                waiting[node] = missing - 1
            elif node in self.buffers:
                last.append(edge)
            else:
                ahead += node.edges
        return last

    def _run_python(self, node: TapeNode, grads: list[Any], watched: Any) -> Gradients:
        """Runs a node that may call code of the user, in the grad mode of the pass."""
        state = modes.state
        before = state.grad_enabled  # as call_in_grad_mode, inlined
        try:
            state.grad_enabled = self.create_graph
            if node.has_hooks or watched:
                return self.run_hooked(node, grads)
            results = node.apply(grads, self)
            return validate_gradients(results, node.edges, node.name, self.representation)
        finally:
            state.grad_enabled = before

    def run_hooked(self, node: TapeNode, grads: list[Any]) -> Gradients:
        """Runs one node with its hooks, and validates its results. A trace gives them the node's names."""
        with enter_scope(node):
            if node.has_hooks:
                grads = run_pre_hooks(node, grads, self)
            return self.run_past_pre_hooks(node, grads)

    def run_past_pre_hooks(self, node: TapeNode, grads: list[Any]) -> Gradients:
        """Runs a node whose hooks before it have run, and then the hooks after it."""
        results = node.apply(grads, self)
        if not node.results_are_checked:
            results = validate_gradients(results, node.edges, node.name, self.representation)
        elif self.plan.members is not None:
            results = self._drop_unwanted(results, node.edges)
        if node.has_hooks:
            results = run_post_hooks(node, results, grads, self)
        state = modes.state
        if state.anomaly and state.check_nan:
            refuse_nan(results, node)
        return results

    def _drop_unwanted(self, results: Gradients, edges: Sequence[Edge | None]) -> Gradients:
        """Drops gradients that lead to no requested input. A compiled formula computes them too."""
        members = self.plan.members or ()
        pairs = zip(results, edges, strict=True)
        return [None if edge is None or edge[0] not in members else grad for grad, edge in pairs]

    def _collect(
        self, waiting: dict[TapeNode, int], node: TapeNode, slot: int, grad: Any
    ) -> list[Any] | None:
        """Adds one of several gradients of a node. Returns the sums when the last one has arrived.

        The gradients of a slot, if small, wait in a list. One compiled call adds them in their order.
        """
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * (1 if node.has_one_slot else len(node.input_metadata))
        missing = waiting[node] = waiting[node] - 1
        if grad is not None:
            if node.fits_gradients:  # those that arrive may have several shapes
                grad = self.fit_received(node, _put_alone(grad, slot, node))[slot]
            held = buffer[slot]
            if held is None:
                buffer[slot] = grad
            elif held.__class__ is list:
                held.append(grad)
                if missing and len(held) == _MOST_LISTED:
                    buffer[slot] = upcalls.add_arrays(*held)
            elif missing and node.has_one_slot and self.representation is ARRAYS and _may_wait(held):
                buffer[slot] = [held, grad]
            else:
                buffer[slot] = self.representation.add(held, grad)
        if missing:
            return None
        received = self.buffers.pop(node)
        first = received[0]
        return [upcalls.add_arrays(*first)] if first.__class__ is list else received

    def take_sum(self, edge: Any) -> Any:
        """Takes the sum that waits at an edge, so that one compiled call adds to it; None if there is none.

        Anomaly detection looks at the gradient of each node alone.
        """
        if edge is None:
            return None
        node, slot = edge
        buffer = self.buffers.get(node)
        if buffer is None or buffer[slot].__class__ is list or node.fits_gradients or modes.state.anomaly:
            return None
        held, buffer[slot] = buffer[slot], None
        return held

    def skip(self, edge: Edge, *nodes: TapeNode) -> bool:
        """Takes nodes out of the run, as if they had run: the node that runs has done their work.

        Args:
            edge: the edge of the running node to the first of them.
            *nodes: that node and those behind it. Each has its only gradient from the one before it.

        Returns:
            Whether it has; it has not where somebody sees nodes run, or may get gradients of some of them.
        """
        plan, state = self.plan, modes.state
        if self.is_symbolic or plan.members is not None or state.watchers:
            return False
        for node in nodes:
            if node.has_hooks or node in plan.waiting or not plan.executes(node):
                return False
        if not self.keep_graph:
            edge[0].release()
        self._drop([edge])
        return True

    def _capture(self, node: TapeNode, grads: list[Any]) -> bool:
        """Captures requested gradients: before the hooks if the node runs too, else after tensor hooks."""
        runs = node in self.plan.needed
        if not runs and node.has_hooks:
            call_in_grad_mode(self.create_graph, self.run_tensor_hooks, node, grads)
        for slot, index in self.plan.captures[node]:
            self.captured[index] = grads[slot]
        return runs

    def fit_received(self, node: TapeNode, grads: list[Any]) -> list[Any]:
        """Fits gradients to a node whose tensor got another shape."""
        return fit_received(node, grads, self)

    def run_tensor_hooks(self, node: TapeNode, grads: list[Any]) -> None:
        """Runs the tensor hooks at the slots of a node, which change ``grads``."""
        run_tensor_hooks(node, grads, self)


def _may_wait(grad: Any) -> bool:
    """Returns whether gradients are too small for memory to matter, and XLA rounds each of their sums."""
    aval = grad.aval  # its own properties would cost frames
    size: Any = prod(aval.shape)
    return isinstance(size, int) and size <= 1 << 14 and aval.dtype.itemsize > 2  # a symbol is not known


def _put_alone(grad: Any, slot: int, node: TapeNode) -> list[Any]:
    """Returns the gradients of a node, of which one has arrived."""
    received = [None] * len(node.input_metadata)
    received[slot] = grad
    return received
