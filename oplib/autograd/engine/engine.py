"""The engine: it checks the arguments of a run, executes the run, and returns captured gradients.

The run itself is in ``run.py``. This file holds the object behind ``Variable._execution_engine``, and the
functions by which user code asks about the current run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from operator import index
from typing import Any

import jax.numpy as jnp

from oplib.autograd.nodes.accumulate import AccumulateGrad, gradient_edge
from oplib.autograd.nodes.edges import GradientEdge, walk_nodes
from oplib.autograd.nodes.error import Error
from oplib.autograd.nodes.gradient_representation import choose_representation
from oplib.autograd.nodes.node import Edge, Node, TapeNode
from oplib.autograd.saved.hooks import HookPair, active_pairs
from oplib.errors import AutogradError, GradientTypeError, describe
from oplib.modes import modes
from oplib.tensor import Tensor

from . import fork
from .plan import RunPlan
from .run import Run, is_checkpoint_valid
from .validation import validate_gradients

_ABSENT: Any = object()


class _EngineBase:
    """The engine as an object. It has no state, so all instances are the same engine."""

    def run_backward(  # noqa: PLR0917  torch's order of arguments
        self,
        tensors: tuple[Any, ...],
        grad_tensors: tuple[Any, ...],
        keep_graph: bool,
        create_graph: bool,
        inputs: tuple[Any, ...] = _ABSENT,
        allow_unreachable: bool = False,
        accumulate_grad: bool = False,
        *,
        run_class: type[Run] = Run,
    ) -> tuple[Tensor | None, ...] | None:
        """Runs the graph backwards from ``tensors``.

        Args:
            tensors: the Tensors or gradient edges to start from.
            grad_tensors: a gradient for each of them.
            keep_graph: saved values are kept for another run.
            create_graph: the run itself is recorded.
            inputs: the tensors whose gradients are wanted; by default all leaves.
            allow_unreachable: gives None for an input that no output depends on, instead of an error.
            accumulate_grad: gradients are added to ``grad``; else the gradients of ``inputs`` are returned.
            run_class: the class of the run. A class of its own checks the gradients itself.

        Returns:
            The gradients of ``inputs``, or None with ``accumulate_grad``.

        Raises:
            AutogradError: an argument has the wrong type, a tensor is outside the graph, or an input is
                unreachable.
        """
        keep, create = index(keep_graph) != 0, index(create_graph) != 0
        unreachable, accumulate = index(allow_unreachable) != 0, index(accumulate_grad) != 0
        fork.check()
        _check_call(tensors, grad_tensors, accumulate=accumulate)
        found = list(map(_root_edge, tensors, grad_tensors, count()))
        roots = [edge for edge in found if edge is not None]
        if len(roots) < len(found):
            position = found.index(None)
            raise _explain_no_graph(tensors[position], position, inputs, accumulate=accumulate)
        wanted = _input_edges(inputs, accumulate=accumulate)
        representation = choose_representation(create_graph=create)
        grads = grad_tensors if representation.tensor_mode else [grad._storage.array for grad in grad_tensors]
        if run_class is Run:
            grads = validate_gradients(grads, roots, "the call of backward or grad", representation)
        plan = RunPlan(roots, wanted, capture=not accumulate)
        if not accumulate and not unreachable:
            _check_reached(plan, wanted)
        run = run_class(plan, representation, keep_graph=keep, create_graph=create)
        captured = run.execute(roots, grads)
        return None if accumulate else _hand_back(captured, run, allow_unreachable=unreachable)

    def queue_callback(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` at the end of the current run, after all nodes and accumulations.

        Raises:
            AutogradError: no run is active in this thread.
        """
        run = modes.state.run
        if run is None:
            raise AutogradError(
                "queue_callback: final callbacks can only be installed during backward pass. No run is "
                "going on in this thread. Call it from a hook or from the backward of a Function."
            )
        run.callbacks.append(callback)

    def is_checkpoint_valid(self) -> bool:
        """Returns whether a node may recompute by a ``backward`` of its own.

        It may in a plain ``backward()`` only.
        """
        return is_checkpoint_valid()


_ImperativeEngine = _EngineBase
_engine = _EngineBase()


def get_python_engine() -> _EngineBase:
    """Returns the engine of the process."""
    return _engine


def current_graph_task_id() -> int:
    """Returns the id of the current run of this thread, or -1."""
    run = modes.state.run
    return -1 if run is None else run.id


def current_autograd_node() -> TapeNode | None:
    """Returns the node that this thread executes, or None."""
    run = modes.state.run
    return None if run is None else run.node


def will_engine_execute_node(node: Any) -> bool:
    """Returns whether the current run has executed ``node`` or will execute it.

    Raises:
        AutogradError: the argument is not a node, no run is active, or the node is a leaf whose gradient
            ``grad`` returns.
    """
    if not isinstance(node, Node):
        raise AutogradError(
            f"_will_engine_execute_node: expects a grad_fn. Got {type(node).__name__}. Give a node of the "
            "graph."
        )
    run = modes.state.run
    if run is None:
        raise AutogradError(
            "_will_engine_execute_node: it can only be asked during the backward pass. No run is going on in "
            "this thread. Ask from a hook."
        )
    plan = run.plan
    if isinstance(node, AccumulateGrad) and node in plan.captures:
        raise AutogradError(
            "_will_engine_execute_node: a leaf was asked for while autograd.grad() runs. Its gradient is "
            "handed back and not accumulated. Ask for nodes that are not leaves."
        )
    return isinstance(node, TapeNode) and plan.executes(node)


def current_graph_task_execution_order() -> list[TapeNode]:
    """Returns all nodes of the current run of this thread, in the order of their execution.

    Raises:
        AutogradError: no run is active.
    """
    run = modes.state.run
    if run is None:
        raise AutogradError(
            "_current_graph_task_execution_order: it should only be called during the backward pass. No run "
            "is going on in this thread. Ask from a hook."
        )
    return run.plan.find_order()


def get_default_saved_variable_hooks() -> HookPair | None:
    """Returns the innermost active pair of hooks for saved tensors of this thread, if any."""
    pairs = active_pairs()
    return pairs[0] if pairs else None


def execute_with_graph_task(task: Run, roots: Sequence[Edge], grads: Sequence[Any]) -> Future[list[Any]]:
    """Executes an existing run, for schedulers that need a future.

    The future is done when this function returns: the engine has no threads.

    Returns:
        A future with the captured gradients, or with the error that ended the run.
    """
    future: Future[list[Any]] = Future()
    try:
        future.set_result(task.execute(roots, grads))
    except BaseException as error:  # noqa: BLE001  the future holds the same error
        future.set_exception(error)
    return future


def _check_call(tensors: Any, grads: Any, *, accumulate: bool) -> None:
    if type(tensors) is not tuple or type(grads) is not tuple:
        _require_tuple("tensors", tensors)
        _require_tuple("grad_tensors", grads)
    if len(tensors) != len(grads):
        raise AutogradError(
            f"run_backward: got {len(tensors)} tensors and {len(grads)} gradients. The two counts differ. "
            f"Give one gradient, or None, for each tensor."
        )
    if accumulate and modes.state.vmap_levels:
        raise AutogradError(
            "backward: it cannot be called inside vmap. The .grad of a leaf has no batch dimension. Call it "
            "outside of vmap, or use grad() inside."
        )


def _require_tuple(name: str, value: object) -> None:
    if not isinstance(value, tuple):
        raise AutogradError(
            f"run_backward: argument '{name}' is expected to be a tuple. Got {type(value).__name__}. "
            f"Give a tuple."
        )


def _root_edge(root: Any, grad: Any, position: int) -> Edge | None:
    """Checks one root and its gradient, and returns the edge of the root; None if it has no graph."""
    if type(root) is Tensor and type(grad) is Tensor:
        node: Any = root._grad_fn
        if node is not None:
            return node, root._output_nr
    if not isinstance(root, (Tensor, GradientEdge)):
        raise AutogradError(
            f"backward: element {position} of tensors is neither a Tensor nor a GradientEdge. Got "
            f"{type(root).__name__}. Give the outputs to differentiate."
        )
    edge = gradient_edge(root) if isinstance(root, Tensor) else check_edge(root)
    if edge is not None and not isinstance(grad, Tensor):
        came = "None, though the tensor requires grad" if grad is None else type(grad).__name__
        raise AutogradError(
            f"backward: element {position} of gradients is not a Tensor. Got {came}. Give a Tensor of the "
            f"output's shape."
        )
    return edge


def _explain_no_graph(root: Tensor, position: int, inputs: object, *, accumulate: bool) -> AutogradError:
    """Returns the error for a root without a graph, with the cause where it can be seen."""
    array = root._storage.array
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        cause = "Only floating and complex values have derivatives. Differentiate what it was computed from."
    elif not modes.state.grad_enabled:
        cause = (
            "Grad mode is off here, as in no_grad(), and in a backward formula or hook without "
            "create_graph=True. Compute it, and ask for its gradient, where it is on: enable_grad()."
        )
    elif root.is_inference():
        cause = "It was made in inference_mode(). Make it outside of the block."
    elif _require_nothing(inputs):
        cause = (
            "No input of the call requires grad either. Set requires_grad=True on them before they are used."
        )
    else:
        cause = (
            "Either no tensor that it is computed from has requires_grad=True, or it was computed under "
            "no_grad(), or detach(), .data or item() cut it off, or it comes from a gradient: compute that "
            "one with create_graph=True."
        )
    return AutogradError(
        f"{'backward' if accumulate else 'grad'}: element {position} of tensors does not require grad and "
        f"does not have a grad_fn. Got {describe(array)}. {cause}"
    )


def _require_nothing(inputs: object) -> bool:
    tensors = [wanted for wanted in inputs if isinstance(wanted, Tensor)] if isinstance(inputs, tuple) else []
    return bool(tensors) and not any(wanted._requires_grad for wanted in tensors)


def _input_edges(inputs: object, *, accumulate: bool) -> list[Edge]:
    if inputs is _ABSENT:
        inputs = ()
    if type(inputs) is not tuple:
        raise AutogradError(
            f"run_backward: 'inputs' must be a tuple. Got {type(inputs).__name__}. Give a plain tuple of "
            "Tensors."
        )
    if not inputs and not accumulate:
        raise AutogradError(
            "grad: it requires non-empty 'inputs'. Got none. Name the tensors to differentiate by."
        )
    return [_input_edge(wanted, position, accumulate=accumulate) for position, wanted in enumerate(inputs)]


def _input_edge(wanted: Any, position: int, *, accumulate: bool) -> Edge:
    if isinstance(wanted, GradientEdge):
        return check_edge(wanted)
    if not isinstance(wanted, Tensor):
        raise AutogradError(
            f"grad: all inputs have to be Tensors or GradientEdges. Got {type(wanted).__name__} at position "
            f"{position}. Give what to differentiate by."
        )
    if accumulate:
        wanted.retain_grad()
    edge = gradient_edge(wanted)
    if edge is None:
        raise AutogradError(
            "grad: one of the differentiated Tensors does not require grad. It is the input at position "
            f"{position}. Set requires_grad=True on it before it is used."
        )
    return edge


def check_edge(edge: GradientEdge) -> Edge:
    """Checks an edge given by a user, and returns it as the engine needs it.

    Raises:
        AutogradError: its node is not a node of oplib, or has no such slot.
        GradientTypeError: its slot is not an integer.
    """
    node: object = edge[0]
    if not isinstance(node, TapeNode):
        raise AutogradError(
            f"GradientEdge: its first item must be an autograd.graph.Node. Got {type(node).__name__}. Use "
            f"get_gradient_edge(tensor)."
        )
    try:
        slot = index(edge[1])
    except TypeError:
        raise GradientTypeError(
            f"GradientEdge: its second item must be an integer. Got {type(edge[1]).__name__}. Use "
            f"get_gradient_edge(tensor)."
        ) from None
    if not 0 <= slot < len(node.input_metadata):
        raise AutogradError(
            f"GradientEdge: {node.name()} has no slot {slot}. It has {len(node.input_metadata)}. Use "
            f"get_gradient_edge(tensor)."
        )
    return node, slot


def _check_reached(plan: RunPlan, wanted: Sequence[Edge]) -> None:
    """Finds unused inputs before any node runs, so that the graph stays as it is."""
    for position, (node, _) in enumerate(wanted):
        if plan.members is not None and node not in plan.members:
            for behind in walk_nodes([root for root, _ in plan.roots]):
                if isinstance(behind, Error):
                    raise AutogradError(behind.message)
            raise _unused(position)


def _unused(position: int) -> AutogradError:
    return AutogradError(
        f"grad: the differentiated Tensor at index {position} appears to not have been used in the graph. "
        f"Its gradient is undefined. Set allow_unused=True if this is the desired behavior."
    )


def _hand_back(captured: Sequence[Any], run: Run, *, allow_unreachable: bool) -> tuple[Tensor | None, ...]:
    own = run.representation.own
    handed: list[Tensor | None] = []
    for position, grad in enumerate(captured):
        if grad is None and not allow_unreachable:
            raise _unused(position)
        handed.append(None if grad is None else own(grad))
    return tuple(handed)
