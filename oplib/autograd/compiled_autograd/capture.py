"""The capture of a graph: stand-ins of its nodes, and the steps that the engine makes of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.nodes.node import FIRST, Edge, Hooks, TapeNode

from .graph_key import GraphWalk, describe_hooks, describe_leaf
from .recorder import Recorder, StandIn
from .script import Script
from .steps import Value

_new: Any = object.__new__


class Skeleton:
    """The stand-ins of a graph, from which a run can be recorded any number of times.

    Attributes:
        nodes: the stand-ins, by place.
        inputs: the values of root gradients and operands.
        outcomes: see ``Recorder``.
        expectations: see ``Recorder``.
        root_places: the place and slot of each root.
        node: the node whose formula could not be captured.
    """

    def __init__(
        self,
        walk: GraphWalk,
        plan: RunPlan,
        roots: Sequence[Edge],
        inputs: Sequence[Value],
        operands: Sequence[Value],
        expectations: dict[tuple[str, int], Mask],
    ) -> None:
        """Makes the stand-ins.

        Args:
            walk: the walk over the graph.
            plan: the plan of the run.
            roots: the edges where gradients enter.
            inputs: the values of root gradients and operands.
            operands: the values of the operands of all nodes, one after another.
            expectations: what earlier runs have shown of host steps.
        """
        self.inputs = inputs
        self.expectations = expectations
        self.outcomes: dict[int, Any] = {}
        self.node: TapeNode | None = None
        index = {node: place for place, node in enumerate(walk.nodes)}
        self.nodes = [_make_stand_in(node, place, plan) for node, place in index.items()]
        count = 0
        for node, stand_in in zip(walk.nodes, self.nodes, strict=True):
            read: list[Any] = []
            if stand_in.formula_key is not None:
                node.read_operands(read)
            stand_in.operands = operands[count : count + len(read)]
            count += len(read)
            edges = node.edges if plan.members is None or node in plan.needed else ()
            stand_in.edges = tuple(
                [
                    None if edge is None or edge[0] not in index else (self.nodes[index[edge[0]]], edge[1])
                    for edge in edges
                ]
            )
        _number(walk.nodes, self.nodes)
        self.root_places = [(index[node], slot) for node, slot in roots]
        self._roots = [(self.nodes[index[node]], slot) for node, slot in roots]
        self._is_restricted = plan.members is not None
        self._members = self._find(plan.members or (), index)
        self._needed = self._find(plan.needed, index)
        self._captures: dict[TapeNode, list[tuple[int, int]]] = {
            self.nodes[index[node]]: slots for node, slots in plan.captures.items() if node in index
        }
        self._captures_count = plan.captures_count

    def _find(self, nodes: Collection[TapeNode], index: Mapping[TapeNode, int]) -> set[TapeNode]:
        return {self.nodes[index[node]] for node in nodes if node in index}

    def prepare(self, script: Script) -> Recorder:
        """Returns a recorder that has not started.

        Args:
            script: where it writes the steps.
        """
        plan = RunPlan(self._roots)
        if self._is_restricted:
            plan.restrict(self._members, self._needed, self._captures, self._captures_count)
        return Recorder(plan, script, outcomes=self.outcomes, expectations=self.expectations)

    def record(self, recorder: Recorder) -> None:
        """Runs the engine's flow over the stand-ins."""
        recorder.flow(self._roots, self.inputs[: len(self._roots)])

    def record_all(self, script: Script) -> Recorder:
        """Records all steps, and drops the references to the nodes."""
        recorder = self.prepare(script)
        try:
            self.record(recorder)
        except BaseException:
            self.node = getattr(recorder.node, "node", None)
            raise
        for stand_in in self.nodes:
            stand_in.node = None
        return recorder


def _make_stand_in(node: TapeNode, place: int, plan: RunPlan) -> StandIn:
    made: StandIn = _new(StandIn)
    made.place, made.title, made.node = place, node.name(), node
    made.has_one_slot = node.has_one_slot  # pyright: ignore[reportAttributeAccessIssue]  of the instance here
    made.hooks = describe_hooks(node) if node.has_hooks else None
    made.has_hooks = made.hooks is not None
    if made.hooks is not None and made.hooks[3]:
        made._post_hooks = Hooks()
    made.input_metadata = tuple(
        [None if one is None else jax.ShapeDtypeStruct(one.shape, one.dtype) for one in node.input_metadata]
    )
    made.runs_without_gradients = node.runs_without_gradients  # pyright: ignore[reportAttributeAccessIssue]
    made.paths = node.paths
    made.leaf = made.formula_key = None
    runs = plan.members is None or node in plan.needed
    if isinstance(node, AccumulateGrad):
        made.leaf = describe_leaf(node.variable)
    elif runs:
        made.formula_key = node.read_operands([])
    return made


def _number(nodes: Sequence[TapeNode], stand_ins: Sequence[StandIn]) -> None:
    """Numbers the stand-ins in the order of their nodes."""
    for number, place in enumerate(sorted(range(len(nodes)), key=lambda place: nodes[place].sequence_nr)):
        is_first = nodes[place].sequence_nr == FIRST
        stand_ins[place].sequence_nr = FIRST if is_first else number


def starts_as_array(operand: Any) -> Any:
    """Returns an operand as an array. Starts of views are tuples of numbers."""
    return np.asarray(operand, np.int32) if operand.__class__ is tuple else operand
