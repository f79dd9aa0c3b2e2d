"""Protocols: the part of a run that nodes may read."""

from __future__ import annotations

from typing import Any, Protocol

from .gradient_representation import GradientRepresentation


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

    def take_sum(self, edge: Any) -> Any:
        """Takes the sum of gradients that waits at an edge; None if there is none."""
        ...

    def skip(self, edge: Any, *nodes: Any) -> bool:
        """Takes nodes out of the run, as if they had run, if nobody sees them run. Returns whether it has."""
        ...

    @property
    def node(self) -> Any:
        """The node that is running, None between nodes."""
        ...
