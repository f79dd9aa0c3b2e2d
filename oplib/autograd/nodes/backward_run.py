"""What a node may ask of the run that executes it."""

from __future__ import annotations

from typing import Protocol

from oplib.tensor import Tensor

from .gradient_representation import GradientRepresentation


class UndoLog(Protocol):
    """Keeps the gradients that a run changes, so that a failed run can put them back."""

    def note(self, tensor: Tensor) -> None:
        """Keeps what ``tensor.grad`` is now, unless an earlier value is kept."""
        ...


class BackwardRun(Protocol):
    """The part of ``oplib.autograd.engine.run.Run`` that nodes and their hooks read."""

    @property
    def representation(self) -> GradientRepresentation:
        """What the gradients of the run are."""
        ...

    @property
    def create_graph(self) -> bool:
        """Whether the backward pass is recorded."""
        ...

    @property
    def undo_log(self) -> UndoLog | None:
        """What restores the gradients if the run fails; None if nobody asked for that."""
        ...
