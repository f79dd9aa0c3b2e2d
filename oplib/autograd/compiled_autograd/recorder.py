"""The recorder: the engine's flow over stand-ins of the nodes. It writes a program and computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.autograd.engine.flow import Flow
from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.gradient_representation import GradientRepresentation
from oplib.autograd.nodes.node import Edge, Gradients, TapeNode

from .script import Script
from .steps import AccumulateStep, AddStep, CallStep, HostStep, RetainStep, Value, Values


class NotServed(Exception):  # noqa: N818  the pass runs eagerly
    """No program can serve a graph. The text is the reason."""


class StandIn(TapeNode):
    """Stands for a node in a program. It refers to the node only while the program is made.

    Attributes:
        place: the index of the node in the walk.
        title: the name of the node.
        formula_key: stands for the formula of the node; None for Python code.
        operands: the numbers of the values that the formula reads.
        hooks: see ``describe_hooks``.
        leaf: what the program knows of the leaf, see ``GraphWalk``; None for other nodes.
        node: the node; None when the program is made.
    """

    results_are_checked = True

    place: int
    title: str
    formula_key: Any
    operands: Sequence[Value]
    hooks: tuple[Any, ...] | None
    leaf: tuple[Any, ...] | None
    node: TapeNode | None

    def name(self) -> str:  # noqa: D102  described in Node
        return self.title

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: D102  described in TapeNode
        assert isinstance(run, Recorder)
        return run.record_node(self, grads)


class _Symbols(GradientRepresentation):
    """The representation of gradients in a recorder: values."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def add(self, a: Value, b: Value) -> Value:
        output = self._script.make_value(a.aval)
        self._script.emit(AddStep((a, b), output))
        return output

    def box(self, grad: Any) -> Any:
        raise NotImplementedError

    own = array = box

    def unbox(self, tensor: Any) -> Any:
        raise NotImplementedError


class Recorder(Flow):
    """Records the steps of a run over stand-ins.

    Attributes:
        script: the steps so far.
        idle: the nodes that have run without any gradient.
        outcomes: for each node that has run, whether it is a call of a formula, and the shapes of its
            results. A replay reads them.
        expectations: for host steps, by kind and place, which of their results are not None, as far as an
            earlier run has shown.
    """

    __slots__ = ("_calls", "_functions", "expectations", "idle", "outcomes", "script")

    def __init__(
        self,
        plan: RunPlan,
        script: Script,
        *,
        outcomes: dict[int, Any],
        expectations: dict[tuple[str, int], Mask],
    ) -> None:
        """Prepares a recording.

        Args:
            plan: the plan of the run over the stand-ins.
            script: where the steps are written.
            outcomes: empty, or those of the recording that is replayed.
            expectations: of the program.
        """
        super().__init__(plan, _Symbols(script), keep_graph=True, create_graph=False)
        self.script = script
        self.idle: list[int] = []
        self.outcomes = outcomes
        self.expectations = expectations
        self._calls = 0
        self._functions: dict[Any, tuple[ArrayFunction | None, Any]] = {}

    def record_node(self, node: StandIn, grads: Gradients) -> Gradients:
        """Records what a node does with its gradients, and returns its results."""
        if any(
            grad is not None and spec is not None and grad.shape != spec.shape
            for grad, spec in zip(grads, node.input_metadata, strict=False)
        ):
            raise NotServed("a tensor got another shape after it was used")
        label = self.script.label = f"{node.title} (NodeCall {self._calls})"
        self._calls += 1
        if node.leaf is not None:
            self._record_leaf(node, grads, label)
            return ()
        key = node.formula_key, tuple([grad is not None for grad in grads])
        if node.formula_key is not None and True not in key[1] and not node.runs_without_gradients:
            self.idle.append(node.place)
            return [None] * len(node.edges)
        outcome, function = self.outcomes.get(node.place), None
        if outcome is None:
            function, avals = self._find_outcome(node, key, grads)
            self.outcomes[node.place] = outcome = (function is not None, avals)
        is_call, avals = outcome
        outputs = [None if aval is None else self.script.make_value(aval) for aval in avals]
        if not is_call:
            self.script.emit(HostStep("node", node.place, label, (tuple(grads),), outputs), grads)
        else:
            inputs = (*node.operands, *[grad for grad in grads if grad is not None])
            self.script.emit(CallStep(node.place, label, key, function, inputs, outputs), grads)
        return outputs

    def _find_outcome(self, node: StandIn, key: Any, grads: Values) -> tuple[ArrayFunction | None, Any]:
        """Returns the formula of a node, and the shapes of its results; no formula for Python code."""
        found = self._functions.get(key)
        if found is None:
            function = None
            assert node.node is not None
            if node.formula_key is not None:
                function = node.node.find_function(key[1])
            if function is None:
                return None, self._expect(node)
            avals = [value.aval for value in (*node.operands, *grads) if value is not None]
            shapes = jax.eval_shape(function.run, *avals)
            found = self._functions[key] = function, shapes
        function, shapes = found
        # what leads to no requested input is dropped, as the engine does
        pairs = zip(shapes, node.edges, strict=True)
        return function, [None if edge is None else shape for shape, edge in pairs]

    def _expect(self, node: StandIn) -> list[Any]:
        """Returns the results that Python code is expected to give: a gradient for each edge.

        An earlier run may have shown otherwise.
        """
        known = self.expectations.get(("node", node.place))
        return [
            None if edge is None or (known is not None and not known[number]) else _spec_at(edge)
            for number, edge in enumerate(node.edges)
        ]

    def _record_leaf(self, node: StandIn, grads: Gradients, label: str) -> None:
        assert node.leaf is not None
        requires_grad, hook_count, _, _, held = node.leaf
        if not requires_grad:
            return
        (grad,) = grads
        if grad is not None:
            before = None if held is None else self.script.make_value(jax.ShapeDtypeStruct(*held))
            total = grad if before is None else self.script.make_value(before.aval)
            self.script.emit(AccumulateStep(node.place, grad, before, total), grads)
        if hook_count:
            self.script.emit(HostStep("accumulated", node.place, label, (), ()), grads)

    # Hooks -------------------------------------------------------------------------------------

    def run_pre_hooks(self, node: Any, grads: list[Any]) -> list[Any]:  # noqa: D102  described in Flow
        on_tensors, retained, pre, _ = node.hooks
        if on_tensors or pre:
            return self._record_hooks("pre", node, grads, (tuple(grads),))
        self._record_retained(node, grads, retained)
        return grads

    def run_tensor_hooks(self, node: Any, grads: list[Any]) -> None:  # noqa: D102  described in Flow
        on_tensors, retained, _, _ = node.hooks
        if on_tensors:
            grads[:] = self._record_hooks("tensor", node, grads, (tuple(grads),))
        else:
            self._record_retained(node, grads, retained)

    def run_post_hooks(self, node: Any, results: Gradients, grads: list[Any]) -> Gradients:  # noqa: D102
        return self._record_hooks("post", node, grads, (tuple(results), tuple(grads)))

    def _record_hooks(
        self, kind: str, node: StandIn, grads: Gradients, arguments: tuple[Values, ...]
    ) -> list[Value | None]:
        """Records a host step of hooks. They give what they get, as far as no run has shown otherwise."""
        known = self.expectations.get((kind, node.place))
        outputs = [
            None
            if value is None or (known is not None and not known[number])
            else self.script.make_value(value.aval)
            for number, value in enumerate(arguments[0])
        ]
        self.script.emit(HostStep(kind, node.place, node.title, arguments, outputs), grads)
        return outputs

    def _record_retained(self, node: StandIn, grads: Gradients, slots: Sequence[int]) -> None:
        for slot in slots:
            grad = grads[slot]
            if grad is not None:
                self.script.emit(RetainStep(node.place, slot, grad), grads)


def _spec_at(edge: Edge) -> Any:
    """Returns the shape and dtype of the gradient on an edge."""
    return edge[0].input_metadata[edge[1]]
