"""The undo log of a run: the gradients of leaves before the run changed them."""

from __future__ import annotations

from typing import Any

from oplib.tensor import Tensor


class GradUndoLog:
    """Keeps the ``grad`` of each tensor before a run first writes it, for ``grad_transaction=True``."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: dict[Tensor, tuple[Tensor | None, Any, int]] = {}

    def note(self, tensor: Tensor) -> None:
        """Keeps the current ``tensor.grad``, unless an earlier one is kept."""
        if tensor not in self._before:
            grad = tensor._grad
            array, version = (None, 0) if grad is None else (grad._storage.array, grad._storage.version)
            self._before[tensor] = (grad, array, version)

    def restore(self) -> None:
        """Restores every gradient: the same tensor with its old value and version."""
        for tensor, (grad, array, version) in self._before.items():
            tensor._grad = grad
            if grad is not None:
                grad._storage.array = array
                grad._storage.version = version
