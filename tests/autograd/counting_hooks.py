"""Hooks for saved tensors that count what they pack and unpack."""

from __future__ import annotations

from typing import Any

from oplib.autograd.graph import saved_tensors_hooks


class CountingHooks:
    """A pair of hooks that changes nothing; called, it is put into force.

    Attributes:
        packed: the tensors that were packed.
        unpacked: how often one was unpacked.
    """

    def __init__(self) -> None:
        self.packed: list[Any] = []
        self.unpacked = 0

    def pack(self, tensor: Any) -> Any:
        self.packed.append(tensor)
        return tensor.detach()

    def unpack(self, kept: Any) -> Any:
        self.unpacked += 1
        return kept

    def __call__(self, **options: Any) -> saved_tensors_hooks:
        return saved_tensors_hooks(self.pack, self.unpack, **options)
