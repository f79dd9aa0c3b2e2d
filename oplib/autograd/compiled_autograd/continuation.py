"""The rest of a pass, executed eagerly: from a step at which its program no longer fits."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify
from typing import Any

from oplib.autograd.engine.run import Run
from oplib.autograd.nodes.node import Gradients, TapeNode

from .recorder import Recorder
from .steps import HostStep


class Continuation:
    """The order of the calls of a program and the arrivals of gradients at nodes, to resume a pass eagerly.

    Attributes:
        outputs: for each requested input the number of the value that is its gradient, or None.
        idle: the nodes that run without any gradient.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.outputs = [None if value is None else value.number for value in recorder.captured]
        self.idle = recorder.idle
        self._order = recorder.order
        self._arrivals = [
            (index, slot, None if value is None else value.number) for index, slot, value in recorder.arrivals
        ]

    def resume(
        self,
        run: Run,
        values: Sequence[Any],
        nodes: Sequence[TapeNode],
        call: int,
        finished: tuple[HostStep, Gradients] | None,
    ) -> None:
        """Continues a run as the engine would.

        Args:
            run: the run.
            values: the values of the program so far, by number.
            nodes: the nodes of the graph, by index.
            call: the number of the call that comes next.
            finished: the host step that was the last, with its results; None if it was a segment.
        """
        edges, grads = (), ()
        if finished is not None:
            call = finished[0].call + 1
        done = [nodes[index] for index, _ in self._order[:call]]
        self._restore(run, values, nodes, done, self._order[call - (finished is not None)][1])
        if finished is not None:
            edges, grads = _finish(*finished, run, done[-1], values)
        if not run.keep_graph:
            for node in {nodes[index] for index in self.idle}.intersection(done):
                node.release()
        run.flow(edges, grads)

    def _restore(
        self, run: Run, values: Sequence[Any], nodes: Sequence[TapeNode], done: list[TapeNode], count: int
    ) -> None:
        """Puts a run into the state after some calls and arrivals."""
        waiting, arrived = run.plan.count(), run.buffers
        for position, slot, value in self._arrivals[:count]:
            node = nodes[position]
            if node in waiting:
                waiting[node] -= 1
            if slot is not None:
                received = arrived.setdefault(node, [None] * len(node.input_metadata))
                received[slot] = None if value is None else values[value]
        for node in done:
            arrived.pop(node, None)
            for _, index in run.plan.captures.get(node, ()):
                number = self.outputs[index]
                run.captured[index] = None if number is None else values[number]
        complete = [node for node in arrived if not waiting.get(node)]
        run.ready = [
            (-node.sequence_nr, number, node, arrived.pop(node)) for number, node in enumerate(complete)
        ]
        heapify(run.ready)


def _finish(
    step: HostStep, results: Gradients, run: Run, node: TapeNode, values: Sequence[Any]
) -> tuple[Sequence[Any], Gradients]:
    """Runs what remains of a node after a host step, and returns the edges and gradients that follow."""
    if step.kind == "tensor":  # the node does not run
        return (), ()
    if step.kind == "pre":
        results = run.run_past_pre_hooks(node, list(results))
    if not run.keep_graph:
        node.release()
    if node.paths is None:
        return node.edges, results
    received = [None if value is None else values[value.number] for value in step.gradients]
    return run.close_edges(node, node.paths, received, results)
