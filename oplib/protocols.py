"""The protocols of classes on higher floors that lower floors use."""

from __future__ import annotations

from typing import Any, Protocol


class GraphNode(Protocol):
    """The interface of a node that a Tensor uses."""

    def name(self) -> str:
        """Returns the name of the backward step."""
        ...

    def retain_grad(self, tensor: Any) -> None:
        """Stores the gradient of this node's output ``tensor`` in ``tensor.grad`` at each run."""
        ...

    def _register_hook_dict(self, tensor: Any) -> None:
        """Runs the hooks in ``tensor._backward_hooks`` before this node."""
        ...
