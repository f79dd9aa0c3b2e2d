"""What a lower floor must know of a higher one."""

from __future__ import annotations

from typing import Any, Protocol


class GraphNode(Protocol):
    """What a Tensor asks of the node that made it."""

    def name(self) -> str:
        """Returns the name of the backward step."""
        ...

    def retain_grad(self, tensor: Any) -> None:
        """Stores the gradient of this node's output ``tensor`` in ``tensor.grad`` whenever it runs."""
        ...

    def _register_hook_dict(self, tensor: Any) -> None:
        """Runs the hooks in ``tensor._backward_hooks`` before this node."""
        ...
