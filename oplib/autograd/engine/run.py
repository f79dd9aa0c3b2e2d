"""One run of the engine: the flow of gradients that computes them, with its hooks and callbacks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from oplib.autograd.anomaly_mode import explain_node_error
from oplib.autograd.nodes.gradient_representation import GradientRepresentation
from oplib.autograd.nodes.node import Edge, Gradients
from oplib.config import config
from oplib.errors import AutogradError, OplibError
from oplib.modes import call_in_grad_mode, modes
from oplib.tensor import upcalls

from .flow import Flow
from .plan import RunPlan
from .stack import StackReserve

_ids = itertools.count()


class Compilation:
    """The switch that hands runs to compiled autograd, beside ``config.compiled_autograd``.

    Attributes:
        is_installed: whether a block of ``enable`` or ``disable`` decides how runs are executed.
        compiler: the compiler of the innermost such block; None in a block of ``disable``.
    """

    is_installed: bool = False
    compiler: Any = None


compilation = Compilation()


class Run(Flow):
    """One run of the engine. The object holds all state of the run.

    Attributes:
        id: a number that counts up from 0 in the process.
        callbacks: functions to call when all nodes have run.
        outer: the run whose node started this one, if any.
    """

    outer: Run | None = None

    def __init__(
        self,
        plan: RunPlan,
        representation: GradientRepresentation,
        *,
        keep_graph: bool,
        create_graph: bool,
    ) -> None:
        self.plan = plan
        self.representation = representation
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.captured = [None] * plan.captures_count
        self.ready = []
        self.buffers = {}
        self.id = next(_ids)
        self.callbacks: list[Callable[[], object]] = []

    @cached_property
    def notes(self) -> dict[Any, Any]:
        """The state of hooks for the time of the run, by keys of their own."""
        return {}

    @property
    def checkpoint_valid(self) -> bool:
        """Whether nodes of this run may recompute by a ``backward`` of their own."""
        return self.plan.members is None and (self.outer is None or self.outer.checkpoint_valid)

    def execute(self, roots: Sequence[Edge], grads: Gradients) -> list[Any]:
        """Runs the graph from ``roots``, and returns the captured gradients."""
        state = modes.state
        before = state.grad_enabled, state.constant_in
        outer = self.outer = state.run
        state.run = self
        try:
            state.constant_in = None
            if self.representation.tensor_mode:  # the pass calls ops on Tensors
                state.grad_enabled = self.create_graph
            is_compiled = not self.is_symbolic and (compilation.is_installed or config.compiled_autograd)
            if is_compiled and call_in_grad_mode(
                self.create_graph, upcalls.execute_compiled, self, roots, grads
            ):
                pass
            elif outer is None:
                self.flow(roots, grads)
            else:
                with StackReserve():
                    self.flow(roots, grads)
            for callback in self.callbacks:  # a callback may queue further ones
                call_in_grad_mode(self.create_graph, callback)
        except BaseException as error:
            if self.node is not None:
                explain_node_error(error, self.node)
            raise
        finally:
            state.run = outer
            state.grad_enabled, state.constant_in = before
        return self.captured


def find_run(complaint: str, error: type[OplibError] = AutogradError) -> Run:
    """Returns the current run of this thread, or raises an error with this text."""
    run: Run | None = modes.state.run
    if run is None:
        raise error(complaint)
    return run


def is_checkpoint_valid() -> bool:
    """Returns whether a node may recompute by a ``backward`` of its own here."""
    run = modes.state.run
    return run is None or run.checkpoint_valid


def has_run() -> bool:
    """Returns whether this process has made a run."""
    return repr(_ids) != repr(itertools.count())  # next(_ids) would use up an id


def reset_runs() -> None:
    """Resets the state that a forked child has from its parent."""
    global _ids  # noqa: PLW0603
    _ids = itertools.count()
    modes.state.run = None
