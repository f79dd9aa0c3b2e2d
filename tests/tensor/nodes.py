"""A stand-in for the node of a recorded call, so that this floor is tested without the ones above."""

from __future__ import annotations

from typing import Any

from oplib.tensor import box, zeros


class FakeNode:
    """Notes what a Tensor asks of its node."""

    def __init__(self) -> None:
        self.retained: list[Any] = []
        self.hooked: list[Any] = []

    def name(self) -> str:
        return "MulBackward0"

    def retain_grad(self, tensor: Any) -> None:
        self.retained.append(tensor)

    def _register_hook_dict(self, tensor: Any) -> None:
        self.hooked.append(tensor)


def make_result() -> Any:
    """Returns a tensor of two zeros that a recorded call seems to have made."""
    result: Any = box(zeros(2).array)
    result._requires_grad, result._grad_fn = True, FakeNode()
    return result
