"""Programs: the backward pass of one structure of graphs, as segments and host steps; eagerly if need be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from heapq import heapify
from typing import Any

from jax import device_put as move_to_default_device
from jax.extend.core import ClosedJaxpr

from oplib.autograd.engine.node_hooks import run_pre_hooks, store_retained
from oplib.autograd.engine.run import Run
from oplib.autograd.nodes.accumulate import adding
from oplib.autograd.nodes.hook_kinds import describe_hooks
from oplib.autograd.nodes.node import Gradients, TapeNode
from oplib.hooks import RemovableHandle

from .graph_key import describe_leaf
from .recorder import Expectations, Recorder
from .segment import Segment, Shared, divide, make_segment
from .state import note_eager
from .steps import HostStep, Step

HOST_RESULTS_DIFFER = "a host step gave None for a gradient, or a gradient where None was expected"
HOOKS_CHANGED = "a hook was registered during the pass"
ON_SEVERAL_DEVICES = "arrays are on different devices"
GRAD_CHANGED = "the grad of a leaf was changed during the pass"

MOST_REPLACEMENTS = 8
"""The number of times that a program is made again, because Python code gave something else."""


class BackwardProgram:
    """The program of one structure. It holds nothing of a graph.

    Attributes:
        names: the names of the nodes, for messages.
        items: segments and host steps, in order.
        continuation: resumes a pass eagerly.
        staged: the inputs that are moved from the host to the accelerator.
        expectations: which results host steps give, as passes have shown.
        is_outdated: whether the next pass makes another program, because a host step has given something
            else than this one expects.
        replacements: how many programs of this structure were outdated.
    """

    def __init__(
        self,
        recorder: Recorder,
        compile_function: Callable[[ClosedJaxpr], Callable[..., Any]],
        *,
        former: BackwardProgram | None,
    ) -> None:
        """Compiles the steps of a recorder, perhaps in place of an outdated program."""
        self.names = tuple([node.name() for node in recorder.indices])
        self.continuation = Continuation(recorder)
        self.staged: Sequence[int] = ()
        self.expectations: Expectations = dict(recorder.expectations)
        self.is_outdated = False
        self.replacements = 0 if former is None else former.replacements + 1
        self._hooks = [describe_hooks(node) for node in recorder.indices]
        self._size = recorder.script.size
        self.items: list[Segment | HostStep] = []
        self._link(recorder.script.steps, compile_function)

    def _link(self, steps: Sequence[Step], compile_function: Callable[[ClosedJaxpr], Any]) -> None:
        """Divides the steps into segments and host steps."""
        groups = divide(steps)
        reads = [[value.number for step in group for value in step.arguments] for group in groups]
        reads.append([number for number in self.continuation.outputs if number is not None])
        last_reads = {value: number for number, group in enumerate(reads) for value in group}
        shared: Shared = {}
        for number, group in enumerate(groups):
            if isinstance(group[0], HostStep):
                self.items.append(group[0])
                continue
            segment = make_segment(
                group, lambda value, at=number: last_reads.get(value, -1) > at, shared, compile_function
            )
            if number < len(groups) - 1:
                segment.drops = [value for value in set(reads[number]) if last_reads[value] == number]
            self.items.append(segment)

    def run(self, run: Run, values: list[Any], nodes: Sequence[TapeNode]) -> bool:
        """Runs the program, and eagerly the rest of a pass that it does not serve.

        Args:
            run: the run, which receives the captured gradients.
            values: root gradients and operands. The list is used for all values.
            nodes: the nodes of the graph, by index.

        Returns:
            Whether the pass has run. If not, nothing has changed.
        """
        for number in self.staged:
            values[number] = move_to_default_device(values[number])
        values.extend([None] * (self._size - len(values)))
        handles = RemovableHandle.next_id
        has_host_run, finished = False, None
        for item in self.items:
            if isinstance(item, Segment):
                reason = _run_segment(item, run, values, nodes, has_host_run=has_host_run)
            else:
                has_host_run, finished = True, (item, _run_host(item, run, values, nodes))
                reason = self._find_mismatch(*finished, nodes, handles)
            if reason is not None:
                note_eager(reason)
                if item is self.items[0] and finished is None:
                    return False
                self.continuation.resume(run, values, nodes, item.call, finished)
                return True
            if isinstance(item, Segment):
                finished = None
        if not run.keep_graph:
            for index in self.continuation.idle:
                nodes[index].release()
        outputs = self.continuation.outputs
        run.captured[:] = [None if number is None else values[number] for number in outputs]
        run.node = None
        return True

    def _find_mismatch(
        self, step: HostStep, results: Gradients, nodes: Sequence[TapeNode], handles: int
    ) -> str | None:
        """Returns why the program cannot go on after a host step; None if it can."""
        for value, result, is_read in zip(step.results, results, step.is_read, strict=False):
            if is_read and (value is None) != (result is None):
                self.expectations[step.kind, step.index] = tuple([result is not None for result in results])
                self.is_outdated = self.replacements < MOST_REPLACEMENTS
                return HOST_RESULTS_DIFFER
        if RemovableHandle.next_id != handles and any(
            describe_hooks(node) not in (None, hooks) for node, hooks in zip(nodes, self._hooks, strict=True)
        ):
            return HOOKS_CHANGED
        return None


def _run_host(step: HostStep, run: Run, values: list[Any], nodes: Sequence[TapeNode]) -> Gradients:
    """Runs Python code: hooks, or a node itself, and returns the gradients after it."""
    node = run.node = nodes[step.index]
    grads = [None if value is None else values[value.number] for value in step.gradients]
    if step.kind == "node":
        results = run.run_past_pre_hooks(node, grads)
        if not run.keep_graph:
            node.release()
    elif step.kind == "pre":
        results = run_pre_hooks(node, grads, run)
    else:
        run.run_tensor_hooks(node, grads)
        results = grads
    for value, result in zip(step.results, results, strict=False):
        if value is not None:
            values[value.number] = result
    return results


def _run_segment(
    segment: Segment, run: Run, values: list[Any], nodes: Sequence[Any], *, has_host_run: bool
) -> str | None:
    """Runs a segment, and stores what it gives. Returns why it cannot run; then nothing has changed."""
    if has_host_run:  # Python code may have changed leaves, and what nodes have saved
        leaves = [(step.leaf, nodes[step.index]) for step in segment.stores if step.leaf is not None]
        if any(describe_leaf(node.variable) != leaf for leaf, node in leaves):
            return GRAD_CHANGED
        for index in segment.indices:
            node = run.node = nodes[index]
            node.read_operands([])
        run.node = None
    # no other thread may write between the read and the write
    with adding if segment.sums else nullcontext():
        for index, held in segment.sums:
            values[held] = nodes[index].variable._grad._storage.array
        try:
            _compute(segment, values)
        except ValueError:
            if _are_apart(segment.take(values)):
                return ON_SEVERAL_DEVICES
            raise
        for step in segment.stores:
            _store(step, nodes[step.index], values[step.gradient.number], run)
    if not run.keep_graph:
        for index in segment.indices:
            nodes[index].release()
    for number in segment.drops:
        values[number] = None
    return None


def _store(step: Any, node: Any, gradient: Any, run: Run) -> None:
    """Stores a gradient: in a tensor that keeps its own, or in a leaf, or as the sum with that of a leaf."""
    if step.leaf is None:
        store_retained(node, step.slot, gradient, run)
    elif step.held is None:
        node.accumulate(gradient, run)
    else:
        node.store_sum(gradient)


def _compute(segment: Segment, values: list[Any]) -> None:
    if segment.compiled is not None:
        results = segment.compiled(*segment.take(values))
        for number, result in zip(segment.gives, results, strict=True):
            values[number] = result
    for number, source in segment.forwards:
        values[number] = values[source]


def _are_apart(arrays: Iterable[Any]) -> bool:
    """Returns whether arrays are committed to different devices, which one program cannot read."""
    committed = [array.sharding.device_set for array in arrays if getattr(array, "committed", False)]
    return any(devices != committed[0] for devices in committed)


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
        """Continues a run as the engine would, at a call or after the host step that was the last."""
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
