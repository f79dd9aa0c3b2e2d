"""Protocols: the part of a run that nodes may read."""

from __future__ import annotations

from typing import Any, Protocol

from oplib.tensor import Tensor

from .gradient_representation import GradientRepresentation


class UndoLog(Protocol):
    """Keeps the gradients that a run changes, so that a failed run can restore them."""

    def note(self, tensor: Tensor) -> None:
        """Keeps the current ``tensor.grad``, unless an earlier one is kept."""
        ...


class BackwardRun(Protocol):
    """The part of ``oplib.autograd.engine.run.Run`` that nodes and their hooks read."""

    @property
    def representation(self) -> GradientRepresentation:
        """The type of the gradients, with its operations."""
        ...

    @property
    def create_graph(self) -> bool:
        """Whether the backward pass is recorded."""
        ...

    @property
    def node(self) -> Any:
        """The node that is running, None between nodes."""
        ...

    @property
    def undo_log(self) -> UndoLog | None:
        """The log that restores the gradients if the run fails; None without ``grad_transaction``."""
        ...
