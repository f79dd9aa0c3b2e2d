"""The protocols of classes on higher floors that lower floors use, and two types that many modules name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

AnyFunction = Callable[..., Any]
Values = tuple[Any, ...]  # of any kinds and number, such as the arguments of a call


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
