"""Tensors whose attributes belong to the tracing thread, so that other threads see and keep their own.

A trace changes the attributes of captured Tensors: gradients, histories, flags and ``data``. While it runs,
they have a class that gives the tracing thread another dictionary of attributes than other threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oplib.tensor import Tensor
from oplib.tensor.jax_node import register_kind
from oplib.tensor.storage.class_changes import change_class
from oplib.tensor.storage.overlay import Overlay, overlays

_read: Any = object.__getattribute__
_write: Any = object.__setattr__
_delete: Any = object.__delattr__


class ObservedTensor(Tensor):
    """A Tensor that a thread traces with. The class is changed back when the trace ends.

    It calls itself a Tensor, so that copies and pickles are Tensors, and calls in other threads stay fast.
    """

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return Tensor
        overlay = overlays.current
        own = None if overlay is None else overlay.attributes.get(id(self))
        if own is None:
            return _read(self, name)
        assert overlay is not None
        if name == "_grad" and id(self) not in overlay.set_grads:
            overlay.read_grads.add(id(self))
        if name == "__dict__":
            return own
        if name in own:
            return own[name]
        # An attribute that only other threads have is not there; others are found through the class.
        return getattr(Tensor, name) if name in _read(self, "__dict__") else _read(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        overlay = overlays.current
        own = None if overlay is None else overlay.attributes.get(id(self))
        if own is None or _has_setter(name):
            _write(self, name, value)
            return
        assert overlay is not None
        if name == "_grad":
            overlay.set_grads.add(id(self))
        own[name] = value

    def __delattr__(self, name: str) -> None:
        overlay = overlays.current
        own = None if overlay is None else overlay.attributes.get(id(self))
        if own is None or name not in own:
            _delete(self, name)
        else:
            del own[name]

    def _replace_grad(self, value: Any) -> None:
        if overlays.current is None:
            super()._replace_grad(value)
        else:
            self._grad = value  # without a read


def _has_setter(name: str) -> bool:
    """Whether the class, and not the dictionary of a Tensor, decides what an assignment does."""
    found = next((vars(cls)[name] for cls in Tensor.__mro__ if name in vars(cls)), None)
    return hasattr(type(found), "__set__")


ObservedTensor.__name__ = ObservedTensor.__qualname__ = "Tensor"
ObservedTensor.__module__ = Tensor.__module__
register_kind(ObservedTensor, "oplib.ObservedTensor")


def observe_tensors(tensors: Iterable[tuple[Tensor, type, dict[str, Any]]], overlay: Overlay) -> None:
    """Gives a trace attributes of its own for Tensors that are no views.

    Args:
        tensors: Tensors with their classes and attributes before the trace. Those of other classes, and
            views, whose class says whether they are stale, keep theirs.
        overlay: of the trace.
    """
    for tensor, kind, attributes in tensors:
        if kind is Tensor and tensor._root is None:
            own = overlay.attributes[id(tensor)] = dict(attributes)
            if own.get("_views") is not None:
                own["_views"] = list(own["_views"])
            change_class(tensor, ObservedTensor)


def find_unread_grads(tensors: Iterable[tuple[Tensor, type, Any]], overlay: Overlay) -> frozenset[int]:
    """Returns the numbers of the observed Tensors whose gradient from before has not been read.

    A program does not depend on these. A step that clears the gradients before its backward therefore needs
    one program, whether there were gradients or not.
    """
    read = overlay.read_grads
    return frozenset(
        number
        for number, (tensor, *_) in enumerate(tensors)
        if is_observed_tensor(tensor) and id(tensor) not in read
    )


def is_observed_tensor(tensor: Tensor) -> bool:
    """Returns whether a trace has attributes of its own for a Tensor, asked in any thread."""
    return type(tensor) is ObservedTensor
