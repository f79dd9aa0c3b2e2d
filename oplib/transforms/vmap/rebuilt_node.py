"""The nodes outside of a map of nodes inside that have no plan, or a plan and no class of their own.

These are nodes of views, and all nodes that run Python: Functions of users, nodes with hooks, and nodes
without a formula. The backward of those that run Python is traced once, for one example, when the mapped
function returns. The backward pass maps the resulting program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import jax
from jax.core import Tracer

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask, has_gradient
from oplib.autograd.array_functions.filled_plan import FilledPlan, call_jaxpr
from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.array_functions.width import x64
from oplib.autograd.engine.node_hooks import run_post_hooks, run_pre_hooks
from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.engine.run import Run
from oplib.autograd.engine.validation import validate_gradients
from oplib.autograd.nodes.gradient_representation import ARRAYS, choose_representation
from oplib.autograd.nodes.hook_kinds import after, runs_python
from oplib.autograd.nodes.node import NOBODY, Edge, SavedArray, SavedState, TapeNode
from oplib.autograd.recording.formula_node import FormulaNode
from oplib.autograd.saved_tensors.saved_tensor import link, second_pass_error
from oplib.errors import AutogradError
from oplib.library.jax_primitives.program_key import read_program
from oplib.modes import modes
from oplib.tensor import Tensor


class RebuiltNode(FormulaNode):
    """A node outside of a map, with the name of the node inside and the edges of its values.

    Attributes:
        label: the name.
        links: the edge of each saved value.
        is_linked: whether these are all. If not, the backward cannot be differentiated.
    """

    label: str = ""
    links: Sequence[Edge | None] = ()
    is_linked: bool = True

    def name(self) -> str:  # noqa: D102
        return self.label

    def read_saved(self) -> SavedState:  # noqa: D102  described in TapeNode
        return super().read_saved()._replace(node_class=None, is_linked=self.is_linked)

    def restore(self, state: SavedState, edges: tuple[Edge | None, ...]) -> None:  # noqa: D102  in FormulaNode
        super().restore(state, edges)
        self.links, self.is_linked = [value.edge for value in state.values], state.is_linked

    def linked_residuals(self) -> list[Tensor]:
        """Returns the saved values as tensors with history."""
        saved: Any = self.saved
        if saved is None:
            raise second_pass_error(self.label)
        links = self.find_links(self.plan.sources)
        tensors = list(map(ARRAYS.box, saved[: len(links)]))
        for tensor, edge in zip(tensors, links, strict=True):
            if edge is not None:
                link(tensor, edge)
        return tensors

    def find_links(self, sources: Sequence[int]) -> list[Edge | None]:  # noqa: D102  in SlottedNode
        return list(self.links[: len(sources)])

    def _apply_recorded(self, grads: Sequence[Any], present: Mask) -> Sequence[Any]:
        """Records the backward. If it reads a value without an edge, part of its derivative would be lost."""
        if self.is_linked:
            return super()._apply_recorded(grads, present)
        raise AutogradError(
            f"{self.label}: it was recorded inside vmap, and its backward reads tensors whose history is "
            "lost outside: those that save_for_backward was not given, that a hook reads, or that an op with "
            "a hook has computed and kept. With create_graph=True the second gradient would be wrong. Save "
            "them, register the hook outside, or differentiate twice inside vmap."
        )


def trace_node(node: TapeNode, *, ends_here: bool) -> SavedState:
    """Traces the backward of a node with its hooks for one example, while the map that recorded it is active.

    Where the graph of the node goes on outside, only the hooks before the node run.
    """
    state = node.read_saved()
    has_formula = isinstance(node, FormulaNode)
    # Where a formula keeps intermediates, these stay constants, and the backward is not linked.
    is_read = not (ends_here or state.reads) if has_formula else state.plan is None
    values = state.values if is_read else ()
    slots = [
        None if spec is None or not has_gradient(spec.dtype) else jax.ShapeDtypeStruct(spec.shape, spec.dtype)
        for spec in node.input_metadata
    ]
    wanted: list[bool] = []

    def run(saved: Sequence[Any], cotangents: Iterable[Any], *, create_graph: bool) -> Sequence[Any]:
        rest = iter(cotangents)
        grads = [None if slot is None else next(rest) for slot in slots]
        reading = node.with_arrays(saved) if state.plan is None or not saved else _read_from(node, saved)
        return run_alone(reading, grads, ends_here=ends_here, create_graph=create_graph)

    def run_once(*inputs: Any) -> list[Any]:
        results = run(inputs[: len(values)], inputs[len(values) :], create_graph=False)
        wanted.extend(result is not None for result in results)
        return pick_given(results)

    def run_recorded(*inputs: Any) -> None:
        results = run(inputs[: len(values)], map(ARRAYS.box, inputs[len(values) :]), create_graph=True)
        histories.extend(result._requires_grad for result in results if result is not None)

    if state.is_freed:
        unused = ArrayFunction(lambda: (), node.name(), compiled=False)
        return SavedState(FilledPlan(unused, (False,) * len(node.edges), slots, 0), is_freed=True)
    shapes = [*(jax.typeof(value.array) for value in values), *pick_given(slots)]
    closed = jax.make_jaxpr(run_once)(*shapes)
    plan = _find_plan(closed.jaxpr, node.name(), tuple(wanted), slots, len(closed.consts) + len(values))
    histories = [isinstance(constant, Tracer) for constant in closed.consts if _may_have_history(constant)]
    if histories and not any(histories):
        # The backward made them, as by oplib.zeros(1), or they are of tensors from outside of the map.
        histories.clear()
        jax.eval_shape(run_recorded, *shapes)
    constants = [SavedArray(array, NOBODY, 0, None) for array in closed.consts]
    return SavedState(plan, [*constants, *values], is_linked=state.is_linked and not any(histories))


_find_known = lru_cache(maxsize=256)(lambda key: list[FilledPlan]())  # noqa: ARG005  equal keys have one list


def _find_plan(jaxpr: Any, name: str, wanted: Mask, slots: Sequence[Any], count: int) -> FilledPlan:
    """Returns the plan of a traced backward. From the second trace on, the same program is compiled once."""
    try:
        known = _find_known((read_program(jaxpr), name, wanted, *slots, x64.value))
    except TypeError:  # it has no key
        known = []
    if len(known) < 2:
        function = ArrayFunction(call_jaxpr(jaxpr, wanted), name, compiled=bool(known))
        known.append(FilledPlan(function, wanted, slots, count))
        if not function.compiled:
            known[0].token = None  # each call has a program of its own
    return known[-1]


def _read_from(node: Any, arrays: Sequence[Any]) -> TapeNode:
    """Returns a node with the formula and hooks of another, that reads these arrays as constants."""
    twin = RebuiltNode()
    vars(twin).update(vars(node))
    twin.label, twin.hides_constants = node.name(), node.hides_constants
    constants = [SavedArray(array, NOBODY, 0, None) for array in arrays]
    twin.restore(SavedState(node.plan, constants), (None,) * len(node.edges))
    twin.versions = twin.kept = twin.tangents = None
    return twin


def _may_have_history(constant: Any) -> bool:
    """Tells whether a value could have a gradient. A number of Python is weakly typed, and cannot."""
    return has_gradient(constant.dtype) and not jax.typeof(constant).weak_type


def run_alone(node: TapeNode, grads: list[Any], *, ends_here: bool, create_graph: bool) -> Sequence[Any]:
    """Runs one node with its hooks, as the engine does, and no further node."""
    representation = choose_representation(create_graph=create_graph)
    run = Run(RunPlan(()), representation, keep_graph=True, create_graph=create_graph)
    state = modes.state
    outer, grad_mode = state.run, state.grad_enabled
    try:
        state.run, run.node, state.grad_enabled = run, node, create_graph
        if node.has_hooks:
            grads = run_pre_hooks(node, grads, run)
        if ends_here:
            return _end_at_hooks(node, grads)
        results = node.apply(grads, run)[: len(node.edges)]
        if not node.results_are_checked:
            results = validate_gradients(results, node.edges, node.name, run.representation)
        return run_post_hooks(node, results, grads, run) if node.has_hooks else results
    finally:
        state.run, state.grad_enabled = outer, grad_mode


def _end_at_hooks(node: TapeNode, grads: list[Any]) -> list[Any]:
    """Traces only the hooks before a node whose graph continues outside."""
    if runs_python(node, after):
        raise AutogradError(
            f"{node.name()}: a hook of a node was registered inside vmap where the graph goes on outside. It "
            "would receive gradients of one example after a call with gradients of all. Use "
            "tensor.register_hook."
        )
    return grads
