"""Programs: the backward pass of one structure of graphs, as segments and host steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from oplib.autograd.engine.run import Run
from oplib.autograd.nodes.accumulate import adding
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.autograd.nodes.node import Gradients, TapeNode
from oplib.hooks import RemovableHandle
from oplib.modes import modes

from .capture import Skeleton
from .eager_rest import run_rest
from .graph_key import describe_hooks, describe_leaf
from .host_calls import call_item, unboxed
from .host_steps import run_host_step
from .script import Script
from .segment import Segment, SegmentCompiler, divide
from .state import note_eager
from .steps import HostStep, Step, Value, arguments_of

HOST_RESULTS_DIFFER = "a host step gave None for a gradient, or a gradient where None was expected"
HOOKS_CHANGED = "a hook was registered during the pass"
ON_SEVERAL_DEVICES = "arrays are on different devices"
GRAD_CHANGED = "the grad of a leaf was changed during the pass"


class BackwardProgram:
    """The program of one structure. It holds nothing of a graph.

    Attributes:
        items: segments, and host steps with their numbers, in order.
        outputs: for each requested input the number of the value that is its gradient, or None.
        skeleton: the stand-ins of the graph.
        functions: the functions of the segments, as the compiler got them.
        is_outdated: whether a host step has given something else than the program expects, so that the next
            pass makes another program.
    """

    def __init__(
        self,
        script: Script,
        outputs: Sequence[Value | None],
        compiler: SegmentCompiler,
        skeleton: Skeleton | None = None,
        idle: Sequence[int] = (),
    ) -> None:
        """Compiles the steps of a script.

        Args:
            script: the steps.
            outputs: the values that the program returns.
            compiler: the compiler of segments.
            skeleton: the stand-ins of the graph; None for a script of calls of hooks only.
            idle: the nodes that run without any gradient.
        """
        self._skeleton = skeleton
        self.outputs = [None if value is None else value.number for value in outputs]
        self.items: list[Segment | tuple[int, HostStep]] = []
        self.is_outdated = False
        self._idle = idle
        self._size = len(script.values)
        self._link(script.steps, compiler)
        self.functions = compiler.functions

    @property
    def skeleton(self) -> Skeleton:
        """The stand-ins of the graph."""
        assert self._skeleton is not None
        return self._skeleton

    def __call__(self, inputs: list[Any], sizes: Sequence[int], hooks: Sequence[Any]) -> list[Any]:  # noqa: ARG002
        """Runs the program. The names are torch's.

        Args:
            inputs: root gradients and operands. The list is emptied as they are used.
            sizes: numbers; they are static, and in the key of the program.
            hooks: the nodes of the graph by place, or the hooks that the script calls.

        Returns:
            The gradients of the requested inputs.
        """
        run = modes.state.run
        if self._skeleton is not None and run is not None:
            self.run(run, inputs, hooks)
            return run.captured
        values = [*map(unboxed, inputs), *[None] * (self._size - len(inputs))]
        for item in self.items:
            if not isinstance(item, Segment):
                results = call_item(item[1].kind, hooks[item[1].place], _read(item[1], values))
                _write(item[1], results, values)
        return [None if number is None else ARRAYS.box(values[number]) for number in self.outputs]

    def _link(self, steps: Sequence[Step], compiler: SegmentCompiler) -> None:
        """Divides the steps into segments and host steps."""
        groups = divide(steps)
        last_reads: dict[int, int] = {}
        for number, (_, group) in enumerate(groups):
            for step in group:
                last_reads |= dict.fromkeys([value.number for value in arguments_of(step)], number)
        last_reads |= dict.fromkeys([number for number in self.outputs if number is not None], len(groups))
        nodes = () if self._skeleton is None else self._skeleton.nodes
        has_post_hooks = {node.place for node in nodes if node._post_hooks is not None}
        for number, (first, group) in enumerate(groups):
            if isinstance(group[0], HostStep):
                self.items.append((first, group[0]))
                continue
            segment = Segment(group, first, has_post_hooks)
            compiler.compile(segment, group, lambda value, at=number: last_reads.get(value, -1) > at)
            read = {value.number for step in group for value in arguments_of(step)}
            segment.drops = (
                [] if number == len(groups) - 1 else [value for value in read if last_reads[value] == number]
            )
            self.items.append(segment)

    def run(self, run: Run, inputs: list[Any], nodes: Sequence[TapeNode]) -> None:
        """Runs the program, and eagerly what it does not serve.

        Args:
            run: the run, which receives the captured gradients.
            inputs: root gradients and operands. The list is emptied as they are used.
            nodes: the nodes of the graph, by place.
        """
        values = inputs
        values.extend([None] * (self._size - len(inputs)))
        handles = RemovableHandle.next_id
        has_host_run, before = False, None
        for item in self.items:
            if isinstance(item, Segment):
                reason = GRAD_CHANGED if has_host_run and not self._fits(item, nodes) else None
                if reason is None:
                    reason = _run_segment(item, run, values, nodes, is_checked=not has_host_run)
                if reason is not None:
                    note_eager(reason)
                    stop, results = before or (item.first_step, None)
                    run_rest(self.skeleton, run, values, nodes, stop=stop, results=results)
                    return
                before = None
                continue
            number, step = item
            results = _run_host(step, run, values, nodes)
            has_host_run, before = True, (number, results)
            reason = self._find_mismatch(step, results, nodes, handles)
            if reason is not None:
                note_eager(reason)
                run_rest(self.skeleton, run, values, nodes, stop=number, results=results)
                return
            _write(step, results, values)
            self._release(step, run, nodes)
        if not run.keep_graph:
            for place in self._idle:
                nodes[place].release()
        run.captured[:] = [None if number is None else values[number] for number in self.outputs]
        run.node = None

    def _fits(self, segment: Segment, nodes: Sequence[Any]) -> bool:
        """Returns whether the leaves of a segment are as they were expected, after a host step."""
        return all(
            describe_leaf(nodes[step.place].variable) == self.skeleton.nodes[step.place].leaf
            for step in segment.accumulations
        )

    def _find_mismatch(
        self, step: HostStep, results: Gradients, nodes: Sequence[TapeNode], handles: int
    ) -> str | None:
        """Returns why the program cannot go on after a host step; None if it can."""
        edges: Iterable[object] = (
            self.skeleton.nodes[step.place].edges if step.kind == "node" else step.outputs
        )
        for value, result, edge in zip(step.outputs, results, edges, strict=False):
            # a result without edge is dropped; hooks keep None, and what is expected of them has a value
            is_read = edge is not None or step.kind != "node"
            if is_read and (value is None) != (result is None):
                flags = tuple([one is not None for one in results])
                self.skeleton.expectations[step.kind, step.place] = flags
                self.is_outdated = True
                return HOST_RESULTS_DIFFER
        if RemovableHandle.next_id != handles and any(
            node.has_hooks and describe_hooks(node) != stand_in.hooks and describe_hooks(node) is not None
            for node, stand_in in zip(nodes, self.skeleton.nodes, strict=True)
        ):
            return HOOKS_CHANGED
        return None

    def _release(self, step: HostStep, run: Run, nodes: Sequence[TapeNode]) -> None:
        """Frees the saved values of a node of Python code after its last step."""
        is_last = step.kind == "post" or self.skeleton.nodes[step.place]._post_hooks is None
        if is_last and step.kind in ("node", "post") and not run.keep_graph:
            nodes[step.place].release()


def _run_host(step: HostStep, run: Run, values: Sequence[Any], nodes: Sequence[TapeNode]) -> Gradients:
    return run_host_step(step.kind, run, nodes[step.place], _read(step, values))


def _read(step: HostStep, values: Sequence[Any]) -> list[list[Any]]:
    return [[None if value is None else values[value.number] for value in one] for one in step.inputs]


def _write(step: HostStep, results: Gradients, values: list[Any]) -> None:
    for value, result in zip(step.outputs, results, strict=False):
        if value is not None:
            values[value.number] = result


def _run_segment(
    segment: Segment, run: Run, values: list[Any], nodes: Sequence[Any], *, is_checked: bool
) -> str | None:
    """Runs a segment, and stores what it gives.

    Args:
        segment: the segment.
        run: the run.
        values: the values so far, by number.
        nodes: the nodes of the graph, by place.
        is_checked: whether no Python code has run since the saved values were checked.

    Returns:
        Why the segment cannot run, in which case nothing has changed; None if it has run.
    """
    if not is_checked:
        for place in segment.places:
            node = run.node = nodes[place]
            node.read_operands([])
        run.node = None
    with (
        adding if segment.additions else nullcontext()
    ):  # no other thread may write between the read and the write
        for place, held, _ in segment.additions:
            values[held] = nodes[place].variable._grad._storage.array
        try:
            _compute(segment, values)
        except ValueError:
            if _are_apart(segment.take(values)):
                return ON_SEVERAL_DEVICES
            raise
        _store(segment, run, values, nodes)
    for step in segment.retentions:
        run.retain(nodes[step.place], step.slot, values[step.gradient.number])
    if not run.keep_graph:
        for place in segment.releases:
            nodes[place].release()
    for number in segment.drops:
        values[number] = None
    return None


def _compute(segment: Segment, values: list[Any]) -> None:
    if segment.compiled is not None:
        results = segment.compiled(*segment.take(values))
        for number, result in zip(segment.gives, results, strict=True):
            values[number] = result
    for number, source in segment.forwards:
        values[number] = values[source]


def _store(segment: Segment, run: Run, values: Sequence[Any], nodes: Sequence[Any]) -> None:
    for place, _, total in segment.additions:
        nodes[place].store_sum(values[total], run)
    for place, gradient in segment.firsts:
        nodes[place].accumulate(values[gradient], run)


def _are_apart(arrays: Iterable[Any]) -> bool:
    """Returns whether arrays are committed to different devices, which one program cannot read."""
    committed = [array.sharding.device_set for array in arrays if getattr(array, "committed", False)]
    return any(devices != committed[0] for devices in committed)
