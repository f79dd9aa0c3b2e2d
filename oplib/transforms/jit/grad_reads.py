"""Which gradients from before a call a function reads, found while it is traced.

A program does not depend on the others. A step that clears the gradients before its backward therefore needs
one program, whether there were gradients or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oplib.tensor import Tensor
from oplib.tensor.jax_node import register_kind
from oplib.tensor.storage.overlay import overlays


def _read(tensor: Tensor) -> Any:
    overlay = overlays.current
    if overlay is not None and id(tensor) not in overlay.set_grads:
        overlay.read_grads.add(id(tensor))
    return tensor.__dict__.get("_grad")


def _write(tensor: Tensor, value: Any) -> None:
    overlay = overlays.current
    if overlay is not None:
        overlay.set_grads.add(id(tensor))
    tensor.__dict__["_grad"] = value


class ObservedTensor(Tensor):
    """A Tensor whose gradient is observed. The class is changed back when the trace ends."""

    _grad: Any = property(_read, _write)

    def _replace_grad(self, value: Any) -> None:
        self._grad = value  # without a read


ObservedTensor.__name__ = ObservedTensor.__qualname__ = "Tensor"
ObservedTensor.__module__ = Tensor.__module__
register_kind(ObservedTensor, "oplib.ObservedTensor")


def observe_grads(tensors: Iterable[Tensor]) -> None:
    """Changes the class of Tensors that are no views; other classes and views have classes of their own."""
    for tensor in tensors:
        if type(tensor) is Tensor and tensor._root is None:
            tensor.__class__ = ObservedTensor


def find_unread_grads(tensors: Iterable[Tensor]) -> frozenset[int]:
    """Returns the numbers of the observed Tensors whose gradient from before has not been read."""
    overlay = overlays.current
    assert overlay is not None
    return frozenset(
        number
        for number, tensor in enumerate(tensors)
        if type(tensor) is ObservedTensor and id(tensor) not in overlay.read_grads
    )
