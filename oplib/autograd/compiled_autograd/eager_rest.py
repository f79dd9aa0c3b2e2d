"""The rest of a run, executed eagerly: from a step at which its program no longer fits."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify
from typing import Any

from oplib.autograd.engine.run import Run
from oplib.autograd.nodes.node import Gradients, TapeNode

from .capture import Skeleton
from .host_steps import continue_after
from .recorder import Recorder
from .script import ReplayStopped, Script
from .steps import HostStep, Value


def run_rest(
    skeleton: Skeleton,
    run: Run,
    values: Sequence[Any],
    nodes: Sequence[TapeNode],
    *,
    stop: int,
    results: Gradients | None,
) -> None:
    """Continues a run as the engine would from a step of its program.

    The engine's flow over the stand-ins is replayed up to the step. Its state, with the concrete gradients
    for the values, is the state in which the engine would be.

    Args:
        skeleton: the stand-ins of the program.
        run: the run.
        values: the values of the program so far, by number.
        nodes: the nodes of the graph, by place.
        stop: the number of the step.
        results: the results of the step, if it is a host step that has run; None for a step that has not.
    """
    if not stop and results is None:
        roots = [(nodes[place], slot) for place, slot in skeleton.root_places]
        run.flow(roots, values[: len(roots)])
        return
    recorder, stopped = _replay(skeleton, stop)

    def concrete(grads: Sequence[Value | None]) -> list[Any]:
        return [None if grad is None else values[grad.number] for grad in grads]

    run.ready = [
        (-nodes[node.place].sequence_nr, number, nodes[node.place], concrete(received))
        for number, (_, _, node, received) in enumerate(sorted(recorder.ready, key=lambda entry: entry[:2]))
        for node in [_stand_in(node)]
    ]
    heapify(run.ready)
    run.buffers = {nodes[_stand_in(node).place]: concrete(held) for node, held in recorder.buffers.items()}
    run.plan.waiting = {nodes[_stand_in(node).place]: left for node, left in recorder.plan.count().items()}
    run.captured = concrete(recorder.captured)
    step = stopped.step
    node = nodes[_stand_in(recorder.node).place]
    run.node = node
    if isinstance(step, HostStep) and results is not None:
        arguments = [concrete(argument) for argument in step.inputs]
        grads = continue_after(step.kind, run, node, arguments, results)
        edges = () if step.kind == "tensor" else node.edges
    else:
        grads, edges = run.run_past_pre_hooks(node, concrete(stopped.grads)), node.edges
    if not run.keep_graph:
        for done in (node, *[nodes[place] for place in recorder.idle]):
            done.release()
    run.flow(edges, grads)


def _replay(skeleton: Skeleton, stop: int) -> tuple[Recorder, ReplayStopped]:
    recorder = skeleton.prepare(Script(skeleton.inputs, stop))
    try:
        skeleton.record(recorder)
    except ReplayStopped as stopped:
        return recorder, stopped
    raise AssertionError(f"a program of compiled autograd has no step {stop}")


def _stand_in(node: Any) -> Any:
    return node
