"""The engine: it checks the arguments of a run, executes the run, and returns captured gradients.

The run itself is in ``run.py``. This file holds the object behind ``Variable._execution_engine``, and the
functions by which user code asks about the current run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from logging import DEBUG
from operator import index
from typing import Any

from oplib.autograd.array_functions.width import wide_plans, x64
from oplib.autograd.nodes.accumulate import AccumulateGrad, gradient_edge, leaf_edge
from oplib.autograd.nodes.edges import GradientEdge, check_edge, walk_nodes
from oplib.autograd.nodes.error import Error
from oplib.autograd.nodes.gradient_representation import ARRAYS, choose_representation
from oplib.autograd.nodes.node import Edge, Node, TapeNode
from oplib.autograd.saved_tensors.hooks import HookPair, active_pairs
from oplib.errors import AutogradError
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Tensor

from . import fork
from .node_logging import log, log_nodes
from .plan import RunPlan
from .root_gradients import enter_roots, fit_root_gradients
from .run import Run, find_run, is_checkpoint_valid
from .wide_graph import needs_64_bits


class _EngineBase:
    """The engine as an object. It has no state, so all instances are the same engine."""

    def run_backward(  # noqa: PLR0917  torch's order of arguments
        self,
        tensors: Values,
        grad_tensors: Values,
        keep_graph: bool,
        create_graph: bool,
        inputs: Values = (),
        allow_unreachable: bool = False,
        accumulate_grad: bool = False,
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

        Returns:
            The gradients of ``inputs``, or None with ``accumulate_grad``.

        Raises:
            AutogradError: an argument has the wrong type, a tensor is outside the graph, or an input is
                unreachable.
        """
        flags = keep_graph, create_graph, allow_unreachable, accumulate_grad
        keep, create, unused, accumulate = map(bool, map(index, flags))
        for name, value in {"tensors": tensors, "grad_tensors": grad_tensors}.items():
            if not isinstance(value, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
                raise AutogradError(
                    f"run_backward: argument '{name}' is expected to be a tuple. Got {type(value).__name__}. "
                    f"Give a tuple."
                )
        if type(inputs) is not tuple:
            raise AutogradError(
                f"run_backward: 'inputs' must be a tuple. Got {type(inputs).__name__}. Give a plain tuple of "
                "Tensors."
            )
        if not inputs and not accumulate:
            raise AutogradError(
                "grad: it requires non-empty 'inputs'. Got none. Name the tensors to differentiate by."
            )
        grads = fit_root_gradients(tensors, grad_tensors, inputs, accumulate=accumulate)
        return run_graph(tensors, grads, inputs, keep, create, unused, accumulate=accumulate)

    def queue_callback(self, callback: Callable[[], object]) -> None:
        """Calls ``callback`` at the end of the current run, after all nodes and accumulations.

        Raises:
            AutogradError: no run is active in this thread.
        """
        run = find_run(
            "queue_callback: final callbacks can only be installed during backward pass. No run is going on "
            "in this thread. Call it from a hook or from the backward of a Function."
        )
        run.callbacks.append(callback)

    def is_checkpoint_valid(self) -> bool:
        """Returns whether a node may recompute by a ``backward`` of its own.

        It may in a plain ``backward()`` only.
        """
        return is_checkpoint_valid()


_ImperativeEngine = _EngineBase
_engine = _EngineBase()
engine_run_backward = _engine.run_backward


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
    plan = find_run(
        "_will_engine_execute_node: it can only be asked during the backward pass. No run is going on in "
        "this thread. Ask from a hook."
    ).plan
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
    run = find_run(
        "_current_graph_task_execution_order: it should only be called during the backward pass. No run is "
        "going on in this thread. Ask from a hook."
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


def run_graph(
    outputs: Sequence[Any],
    grads: Sequence[Any],
    inputs: Sequence[Any],
    keep_graph: Any,
    create_graph: Any,
    allow_unused: Any,
    *,
    accumulate: bool = False,
    run_class: type[Run] = Run,
) -> Any:
    """Checks the roots, gradients and inputs of a run, and executes it. Every backward pass begins here.

    Args:
        outputs: the Tensors or gradient edges to start from.
        grads: a gradient of its shape for each of them; None for a real scalar.
        inputs: the tensors or edges whose gradients are wanted; by default all leaves.
        keep_graph: saved values are kept for another run.
        create_graph: the run itself is recorded.
        allow_unused: gives None for an input that no output depends on, instead of an error.
        accumulate: gradients are added to ``grad``; else the gradients of ``inputs`` are returned.
        run_class: the class of the run. A class of its own checks the gradients itself.

    Returns:
        The gradients of ``inputs``, or None with ``accumulate``.
    """
    if wide_plans.any and needs_64_bits(outputs):
        options = inputs, keep_graph, create_graph, allow_unused
        with x64(True):
            return run_graph(outputs, grads, *options, accumulate=accumulate, run_class=run_class)
    keep, create, state = index(keep_graph) != 0, index(create_graph) != 0, modes.state
    if fork.must_reset:
        fork.check()
    if accumulate and state.vmap_levels:
        raise AutogradError(
            "backward: it cannot be called inside vmap. The .grad of a leaf has no batch dimension. Call it "
            "outside of vmap, or use grad() inside."
        )
    is_plain = not create and state.dual_level is None
    representation = ARRAYS if is_plain else choose_representation(create_graph=create)
    roots, root_gradients = enter_roots(
        outputs, grads, inputs, representation, accumulate=accumulate, is_checked=run_class is Run
    )
    wanted: Sequence[Edge] = ()
    if inputs:
        wanted = [_input_edge(one, position, accumulate=accumulate) for position, one in enumerate(inputs)]
    unregister = log_nodes(roots) if state.node_hooks is not None or log.isEnabledFor(DEBUG) else None
    try:
        plan = RunPlan(roots, wanted, capture=not accumulate)
        if not allow_unused and plan.members is not None and not plan.members.keys() >= plan.captures.keys():
            raise _explain_unused(plan, wanted)
        run = run_class(plan, representation, keep_graph=keep, create_graph=create)
        captured = run.execute(roots, root_gradients)
    finally:
        if unregister is not None:
            unregister()
    if accumulate:
        return None
    own = representation.own
    for position, grad in enumerate(captured):
        if grad is not None:
            captured[position] = own(grad)
        elif not allow_unused:
            raise _unused(position)
    return tuple(captured)


def _input_edge(wanted: Any, position: int, *, accumulate: bool) -> Edge:
    if wanted.__class__ is Tensor and wanted._grad_fn is None and wanted._requires_grad:
        return leaf_edge(wanted)
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


def _explain_unused(plan: RunPlan, wanted: Sequence[Edge]) -> AutogradError:
    """Returns the error for an unused input, before any node has run: the graph stays as it is."""
    for behind in walk_nodes([root for root, _ in plan.roots]):
        if isinstance(behind, Error):
            return AutogradError(behind.message)
    members = plan.members or ()
    return _unused(next(position for position, (node, _) in enumerate(wanted) if node not in members))


def _unused(position: int) -> AutogradError:
    return AutogradError(
        f"grad: the differentiated Tensor at index {position} appears to not have been used in the graph. "
        f"Its gradient is undefined. Set allow_unused=True if this is the desired behavior."
    )
