"""One run of the engine. It executes the latest ready node first, and hands gradients along the edges."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from oplib.autograd.anomaly_mode import explain_node_error, refuse_nan
from oplib.autograd.nodes.gradient_representation import GradientRepresentation, choose_representation
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode
from oplib.modes import modes

from .node_hooks import run_post_hooks, run_pre_hooks, run_tensor_hooks
from .plan import RunPlan
from .stack import StackReserve
from .undo_log import GradUndoLog
from .validation import validate_results

_ids = itertools.count()


class _EngineState(threading.local):
    """The run that a thread is in.

    Attributes:
        run: the innermost run, if any.
        vmap_levels: how many of oplib's own maps over a batch dimension surround it.
    """

    run: Run | None = None
    vmap_levels: int = 0


engine_state = _EngineState()


class Run:
    """One run of the engine. The object holds all state of the run.

    Attributes:
        id: a number that counts up from 0 in the process.
        keep_graph: whether saved values stay for another run.
        create_graph: whether the backward pass is recorded.
        representation: the type of the gradients, with its operations.
        plan: the nodes that run, and the number of gradients that each waits for.
        node: the node being executed.
        captured: the gradient of each requested input.
        callbacks: functions to call when all nodes have run.
        undo_log: restores each ``grad`` if the run fails; None without ``grad_transaction``.
        notes: the state of hooks for the time of the run, by keys of their own.
        checkpoint_valid: whether nodes of this run may recompute by a ``backward`` of their own.
        outer: the run whose node started this one, if any.
    """

    __slots__ = (
        "_buffers", "callbacks", "captured", "checkpoint_valid", "create_graph", "id", "keep_graph", "node",
        "notes", "outer", "plan", "representation", "undo_log",
    )  # fmt: skip

    def __init__(
        self, plan: RunPlan, *, keep_graph: bool, create_graph: bool, undo_log: GradUndoLog | None
    ) -> None:
        self.id = next(_ids)
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.representation: GradientRepresentation = choose_representation(create_graph=create_graph)
        self.plan = plan
        self.node: TapeNode | None = None
        self.captured: list[Any] = [None] * plan.captures_count
        self.callbacks: list[Callable[[], object]] = []
        self.notes: dict[Any, Any] = {}
        self.undo_log = undo_log
        self.outer = outer = engine_state.run
        self.checkpoint_valid = plan.members is None and (outer is None or outer.checkpoint_valid)
        self._buffers: dict[TapeNode, list[Any]] = {}

    def execute(self, roots: Sequence[Edge], grads: Gradients) -> list[Any]:
        """Runs the graph from ``roots``, and returns the captured gradients."""
        state = modes.state
        grad_mode = state.grad_enabled
        engine_state.run = self
        try:
            state.grad_enabled = self.create_graph
            if self.outer is None:
                self._flow(roots, grads)
            else:
                with StackReserve():
                    self._flow(roots, grads)
            for callback in self.callbacks:  # a callback may queue further ones
                callback()
        except BaseException as error:
            if self.undo_log is not None:
                self.undo_log.restore()
            if self.node is not None:
                explain_node_error(error, self.node)
            raise
        finally:
            engine_state.run = self.outer
            state.grad_enabled = grad_mode
        return self.captured

    def _flow(self, edges: Sequence[Edge | None], grads: Gradients) -> None:
        """Hands gradients along the edges and runs each node that is ready, until no node is ready."""
        members, waiting, captures = self.plan.members, self.plan.waiting, self.plan.captures
        keep_graph, watched = self.keep_graph, modes.anomaly
        ready: list[tuple[int, int, TapeNode, list[Any]]] = []
        arrivals = 0
        while True:
            for edge, grad in zip(edges, grads):  # noqa: B905  the keyword costs more than the loop
                if edge is None or (members is not None and edge[0] not in members):
                    continue  # not on a path to a requested input
                node, slot = edge
                if node in waiting:
                    received = self._collect(node, slot, grad)
                    if received is None:
                        continue
                elif node.has_one_slot:
                    received = [grad]
                else:
                    received = [None] * len(node.input_metadata)
                    received[slot] = grad
                arrivals += 1
                heappush(ready, (-node.sequence_nr, arrivals, node, received))
            if not ready:
                break
            node, received = heappop(ready)[2:]
            self.node = node
            if captures and node in captures and not self._capture(node, received):
                edges = ()
                continue
            if node.has_hooks or not node.results_are_checked or watched:
                grads = self._run_hooked(node, received)
            else:
                grads = node.apply(received, self)
            if not keep_graph:
                node.release()
            edges = node.edges
        self.node = None

    def _run_hooked(self, node: TapeNode, grads: list[Any]) -> Gradients:
        """Runs one node with its hooks, and validates its results."""
        if node.has_hooks:
            grads = run_pre_hooks(node, grads, self)
        results = node.apply(grads, self)
        if not node.results_are_checked:
            results = validate_results(results, node, self.representation)
        elif self.plan.members is not None:
            results = self._drop_unwanted(results, node.edges)
        if node._post_hooks is not None:
            results = run_post_hooks(node, results, grads, self)
        if modes.anomaly and modes.check_nan:
            refuse_nan(results, node)
        return results

    def _drop_unwanted(self, results: Gradients, edges: Sequence[Edge | None]) -> Gradients:
        """Drops gradients that lead to no requested input. A compiled formula computes them too."""
        members = self.plan.members or ()
        pairs = zip(results, edges, strict=True)
        return [None if edge is None or edge[0] not in members else grad for grad, edge in pairs]

    def _collect(self, node: TapeNode, slot: int, grad: Any) -> list[Any] | None:
        """Adds one of several gradients of a node. Returns the sums when the last one has arrived."""
        buffer = self._buffers.get(node)
        if buffer is None:
            buffer = self._buffers[node] = [None] * len(node.input_metadata)
        if grad is not None:
            held = buffer[slot]
            buffer[slot] = grad if held is None else self.representation.add(held, grad)
        missing = self.plan.waiting[node] = self.plan.waiting[node] - 1
        return None if missing else self._buffers.pop(node)

    def _capture(self, node: TapeNode, grads: list[Any]) -> bool:
        """Captures requested gradients: before the hooks if the node runs too, else after tensor hooks."""
        runs = node in self.plan.needed
        if not runs and node.has_hooks:
            run_tensor_hooks(node, grads, self)
        for slot, index in self.plan.captures[node]:
            self.captured[index] = grads[slot]
        return runs


def is_checkpoint_valid() -> bool:
    """Returns whether a node may recompute by a ``backward`` of its own here."""
    return engine_state.run is None or engine_state.run.checkpoint_valid


def has_run() -> bool:
    """Returns whether this process has made a run."""
    return repr(_ids) != repr(itertools.count())  # next(_ids) would use up an id


def reset() -> None:
    """Resets the state that a forked child has from its parent."""
    global _ids  # noqa: PLW0603
    _ids = itertools.count()
    engine_state.run = None
