"""The recorder: the engine's flow with values for gradients. It writes a program and computes nothing."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.autograd.engine.flow import Flow
from oplib.autograd.engine.node_hooks import RETAINED
from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.nodes.accumulate import AccumulateGrad
from oplib.autograd.nodes.gradient_representation import GradientRepresentation
from oplib.autograd.nodes.hook_kinds import HookKind, after, before, describe_hooks, runs_python
from oplib.autograd.nodes.node import Gradients, TapeNode

from .graph_key import describe_leaf
from .steps import AddStep, CallStep, HostStep, Step, StoreStep, Value

Expectations = dict[tuple[str, int], Mask]
"""For host steps, by kind and index, which of their results are not None, as an earlier run has shown."""


class NotServed(Exception):  # noqa: N818  the pass runs eagerly
    """No program can serve a graph. The text is the reason."""


class Script(GradientRepresentation):
    """Steps and values in the order in which they are written. It represents gradients by values.

    Attributes:
        steps: the steps so far.
        size: the number of values so far. The inputs come first.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.size = 0

    def make_value(self, aval: Any) -> Value:
        """Makes the next value."""
        self.size += 1
        return Value(self.size - 1, aval)

    def add(self, a: Value, b: Value) -> Value:  # noqa: D102  described in GradientRepresentation
        total = self.make_value(a.aval)
        self.steps.append(AddStep((a, b), (total,)))
        return total


class Recorder(Flow):
    """Records the steps of a run. It changes neither the nodes nor the plan.

    Attributes:
        script: the steps so far.
        indices: the index of each node.
        idle: the nodes that have run without any gradient, by index.
        order: the nodes in the order of their calls, each with the number of arrivals before its call.
        arrivals: the gradients that have arrived at nodes, in order: the index of the node, the slot, and the
            sum so far or None. The slot is None if an edge was taken out of the run instead.
        expectations: what earlier runs have shown of host steps.
    """

    is_symbolic = True

    def __init__(
        self,
        plan: RunPlan,
        script: Script,
        nodes: Sequence[TapeNode],
        operands: Sequence[Value],
        expectations: Expectations,
    ) -> None:
        """Prepares a recording. The operands are those of all nodes, one after another."""
        plan = copy.copy(plan)
        plan.waiting = dict.fromkeys(nodes, 1) | plan.count()  # so that each arrival is collected
        super().__init__(plan, script, keep_graph=True, create_graph=False)
        self.script = script
        self.indices = {node: index for index, node in enumerate(nodes)}
        self.idle: list[int] = []
        self.order: list[tuple[int, int]] = []
        self.arrivals: list[tuple[int, int | None, Value | None]] = []
        self.expectations = expectations
        self._functions: dict[Any, tuple[ArrayFunction, Any]] = {}
        self._operands: dict[TapeNode, tuple[Any, Sequence[Value]]] = {}
        count = 0
        for node in nodes if plan.members is None else [node for node in nodes if node in plan.needed]:
            read: list[Any] = []
            formula_key = node.read_operands(read)
            self._operands[node] = formula_key, operands[count : count + len(read)]
            count += len(read)

    def run_hooked(self, node: TapeNode, grads: list[Any]) -> Gradients:  # noqa: D102  described in Flow
        self._enter(node)
        grads = self._record_hooks("pre", node, grads, before)
        if node.fits_gradients:
            grads = self.fit_received(node, grads)
        if runs_python(node, after):
            return self._record_host("node", node, grads)
        return (
            self._record_leaf(node, grads) if isinstance(node, AccumulateGrad) else self._record(node, grads)
        )

    def fit_received(self, node: TapeNode, grads: list[Any]) -> list[Any]:  # noqa: D102  described in Flow
        for grad, spec in zip(grads, node.input_metadata, strict=True):
            if grad is not None and spec is not None and grad.shape != spec.shape:
                raise NotServed("a tensor got another shape after it was used")
        return grads

    def _record(self, node: TapeNode, grads: Gradients) -> Gradients:
        """Records the call of a formula, or of Python code, and returns the results."""
        formula_key, operands = self._operands[node]
        key = formula_key, tuple([grad is not None for grad in grads])
        if formula_key is not None and True not in key[1] and not node.runs_without_gradients:
            self.idle.append(self.indices[node])
            return [None] * len(node.edges)
        arguments = (*operands, *[grad for grad in grads if grad is not None])
        known = self._find_function(node, key, arguments)
        if known is None:
            return self._record_host("node", node, grads)
        function, avals = known
        # what leads to no requested input is dropped, as the engine does
        pairs = zip(avals, self._spec_edges(node), strict=True)
        make = self.script.make_value
        results = [None if spec is None or aval is None else make(aval) for aval, spec in pairs]
        call = len(self.order) - 1
        label = f"{node.name()} (NodeCall {call})"
        self.script.steps.append(CallStep(self.indices[node], call, label, key, function, arguments, results))
        return results

    def _find_function(
        self, node: TapeNode, key: Any, arguments: Sequence[Value]
    ) -> tuple[ArrayFunction, Any] | None:
        """Returns the formula of a node, and the shapes of its results; None for Python code."""
        known = self._functions.get(key)
        if known is None and key[0] is not None:
            function = node.find_function(key[1])
            if function is not None:
                shapes = jax.eval_shape(function.run, *[value.aval for value in arguments])
                known = self._functions[key] = function, shapes
        return known

    def _spec_edges(self, node: TapeNode) -> list[Any]:
        """Returns for each edge of a node the shape and dtype of its gradient; None if it is dropped."""
        edges = [None if edge is None or edge[0] not in self.indices else edge for edge in node.edges]
        specs = [None if edge is None else edge[0].input_metadata[edge[1]] for edge in edges]
        return [None if spec is None else jax.ShapeDtypeStruct(spec.shape, spec.dtype) for spec in specs]

    def _record_leaf(self, node: AccumulateGrad, grads: Gradients) -> Gradients:
        facts = describe_leaf(node.variable)
        requires_grad, hook_count, _, _, held = facts
        if requires_grad and hook_count:
            return self._record_host("node", node, grads)
        total = grads[0]
        if requires_grad and total is not None:
            before = None if held is None else self.script.make_value(jax.ShapeDtypeStruct(*held))
            if before is not None:
                total = self.script.add(before, total)
            self.script.steps.append(StoreStep(self.indices[node], 0, total, before, facts))
        return ()

    def _record_host(self, kind: str, node: TapeNode, grads: Gradients) -> list[Value | None]:
        """Records Python code, and returns the gradients that it is expected to give.

        Hooks give what they get, and a node gives a gradient for each edge, as far as no run has shown
        otherwise.
        """
        index = self.indices[node]
        if kind == "node":
            due = self._spec_edges(node)
            is_read = tuple([spec is not None for spec in due])
        else:
            due = [None if grad is None else grad.aval for grad in grads]
            is_read = (True,) * len(due)
        known = self.expectations.get((kind, index), (True,) * len(due))
        results = [
            self.script.make_value(jax.ShapeDtypeStruct(spec.shape, spec.dtype))
            if spec is not None and is_due
            else None
            for spec, is_due in zip(due, known, strict=True)
        ]
        call = len(self.order) - 1
        self.script.steps.append(HostStep(kind, index, call, tuple(grads), results, is_read))
        return results

    def _enter(self, node: TapeNode) -> None:
        """Notes that a node is called."""
        index = self.indices[node]
        if not self.order or self.order[-1][0] != index:
            self.order.append((index, len(self.arrivals)))

    def _collect(self, waiting: Any, node: TapeNode, slot: int, grad: Any) -> list[Any] | None:
        received = super()._collect(waiting, node, slot, grad)
        held = self.buffers[node] if received is None else received
        self.arrivals.append((self.indices[node], slot, held[slot]))
        return received

    def skip_arrival(self, node: TapeNode, missing: int) -> None:  # noqa: D102  described in Flow
        super().skip_arrival(node, missing)
        self.arrivals.append((self.indices[node], None, None))

    def _capture(self, node: TapeNode, grads: list[Any]) -> bool:
        self._enter(node)
        return super()._capture(node, grads)

    def run_tensor_hooks(self, node: TapeNode, grads: list[Any]) -> None:  # noqa: D102  described in Flow
        grads[:] = self._record_hooks("tensor", node, grads, [kind for kind in before if kind.is_of_tensor])

    def _record_hooks(self, kind: str, node: TapeNode, grads: list[Any], kinds: list[HookKind]) -> list[Any]:
        """Records hooks before a node as a host step, or only the gradients that its outputs retain."""
        if runs_python(node, kinds):
            return self._record_host(kind, node, grads)
        for slot in dict(describe_hooks(node) or ()).get(RETAINED, ()):
            if grads[slot] is not None:
                self.script.steps.append(StoreStep(self.indices[node], slot, grads[slot]))
        return grads
