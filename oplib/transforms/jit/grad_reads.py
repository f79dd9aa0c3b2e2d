"""Which gradients from before a call a function reads, found while it is traced.

A program does not depend on the others. A step that clears the gradients before its backward therefore needs
one program, whether there were gradients or not.
"""

from __future__ import annotations

from collections.abc import Iterable

from oplib.tensor import Tensor
from oplib.tensor.storage.overlay import Overlay

from .observed_tensor import is_observed_tensor


def find_unread_grads(tensors: Iterable[Tensor], overlay: Overlay) -> frozenset[int]:
    """Returns the numbers of the observed Tensors whose gradient from before has not been read."""
    return frozenset(
        number
        for number, tensor in enumerate(tensors)
        if is_observed_tensor(tensor) and id(tensor) not in overlay.read_grads
    )
