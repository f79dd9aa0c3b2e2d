"""The array that each Tensor has while a body is traced.

Each outside Tensor to which the body leads is an input of the trace: its storage has another array for this
thread. JAX differentiates the program, and what the tape would not differentiate has to be a constant for JAX
too: an operand that does not require grad is read through ``stop_gradient``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax.core import Tracer

from oplib.autograd.array_functions.masks import map_given
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.node import Edge
from oplib.autograd.recording.view import has_lost_history
from oplib.modes import modes
from oplib.tensor import Storage, Tensor
from oplib.tensor.devices.device import find_common_device
from oplib.tensor.storage.cut import stop
from oplib.tensor.storage.ended import EndedStorage
from oplib.tensor.storage.known import note_computation
from oplib.tensor.storage.overlay import Overlay, overlays
from oplib.transforms.tracing.paths import CapturedPath, Walk

from .leaves import share

Key = tuple[int, Edge | None]


@dataclass(frozen=True)
class Captured:
    """Something of outside that a body may read.

    Attributes:
        value: the array.
        storage: in which it stands; None for an array that stands in no Tensor.
        owner: the Tensor, where its history matters, or it is known where to find it.
        edge: where its gradient goes; None if it has none.
        path: how the functions lead to the Tensor, to one that shows the storage, or to the array; or None.
    """

    value: Any
    storage: Storage | None = None
    owner: Tensor | None = None
    edge: Edge | None = None
    path: CapturedPath | None = None

    @property
    def key(self) -> Key:
        """By what it is found: the storage is alive as long as this is."""
        return id(self.storage), self.edge

    @property
    def tensor(self) -> Tensor:
        """The operand."""
        if self.owner is not None:
            return self.owner
        return share(Storage(self.value) if self.storage is None else self.storage)


def hold_weakly(captured: Captured) -> Callable[[], Captured | None]:
    """Returns what gives the object again, unless it has ended with its trace.

    An object of a trace around this one is alive as long as that trace.
    """
    if not isinstance(captured.value, Tracer):
        return lambda: captured
    node, slot = captured.edge or (None, 0)
    parts = captured.value, captured.storage, captured.owner, node
    return partial(_find_again, map_given(weakref.ref, parts), slot)


def _find_again(references: Sequence[Any], slot: int) -> Captured | None:
    value, storage, owner, node = [None if reference is None else reference() for reference in references]
    edge = None if node is None else (node, slot)
    return None if value is None else Captured(value, storage, owner, edge)


def list_captured(walk: Walk) -> list[Captured]:
    """Returns what bodies may read: first what has a gradient, last arrays that stand in no Tensor.

    These are Tensors and the storages that they show. Views are read here, outside of the trace.
    """
    by_key: dict[Key, Captured] = {}
    owners: dict[Storage, CapturedPath] = {}
    for path in walk.tensors.values():
        tensor, storage, root = path.value, path.value._storage, path.value._root
        if isinstance(storage.owner, EndedStorage):
            continue
        owners.setdefault(storage.owner, path)
        if overlays.current is not None and root is not None and root._requires_grad:
            continue  # a trace around this one has cut the history of the view, and not that of its root
        if has_lost_history(tensor):  # its values may be read, and each call finds them anew
            capture = Captured(storage.array, storage)
        else:
            capture = Captured(storage.array, storage, tensor, gradient_edge(tensor), path)
        by_key.setdefault(capture.key, capture)
    shown = {storage for storage, _ in by_key}
    tensors = [*by_key.values()]
    tensors += [
        Captured(owner.array, owner, path=at) for owner, at in owners.items() if id(owner) not in shown
    ]
    arrays = [Captured(path.value, path=path) for path in walk.arrays.values()]
    return [*sorted(tensors, key=lambda capture: capture.edge is None), *arrays]


class BodyRegion:
    """Says what array each Tensor has while a body is traced.

    Args:
        captured: what the body may read, first what has a gradient.
        arrays: the arrays that stand for it.
        cutting: what does not require grad is a constant for JAX.

    Attributes:
        seen: what else the body has read, which may be of outside too.
        packed: what hooks that the body has entered have packed.
        lost: views whose history may not be read, and whose values are read, in a body that is not recorded.
    """

    def __init__(self, captured: Sequence[Captured], arrays: Sequence[Any], *, cutting: bool) -> None:
        self._cutting = cutting
        self._outer: BodyRegion | None = modes.region
        self._arrays: dict[Key, Any] = {}
        self.seen: dict[Key, Captured] = {}
        self.packed: list[Any] = []
        self.lost: list[Tensor] = []
        outer = overlays.current
        if outer is None:
            self.overlay = Overlay("", 0)
            self.overlay.device = find_common_device([capture.value for capture in captured])
        else:
            self.overlay = outer.nest()
        self.overlay.takes_writes = False
        for capture, array in zip(captured, arrays, strict=True):
            storage = capture.storage
            assert storage is not None
            note_computation((array,), lambda array: (array,), capture.value)  # known in the outer trace
            first = self._arrays.setdefault((id(storage), None), array)
            self._arrays[capture.key] = array
            if first is array and storage is storage.owner:
                self.overlay.put(storage, array)
        self._cells = [(cell, cell.array, cell.version) for cell in self.overlay.cells.values()]

    def read(self, tensor: Tensor) -> Any:
        """Returns the array of a Tensor that the body reads."""
        storage: Any = tensor._storage
        has_history = tensor._requires_grad
        if has_history and not modes.grad_enabled and has_lost_history(tensor):
            has_history = False
            if modes.state.constant_in is None:  # the body itself has not switched it off
                self.lost.append(tensor)
        edge = gradient_edge(tensor) if has_history else None
        if hasattr(storage, "chain") and (id(storage), edge) not in self._arrays:
            whole = self.find(storage.base, tensor._root if has_history else None)
            value = storage.chain.read(_trace_value(whole), storage.starts)
        else:
            value = _trace_value(self.find(storage, tensor if has_history else None))
        if self._cutting and modes.grad_enabled and not self._is_varied(tensor, has_history=has_history):
            return stop(value)
        return value

    def restore_written(self) -> list[Any]:
        """Undoes writes into outside storages, and returns the arrays of these."""
        written = [
            entry for entry in self._cells if entry[0].array is not entry[1] or entry[0].version != entry[2]
        ]
        for cell, array, version in written:
            cell.array, cell.version = array, version
        return [array for _, array, _ in written]

    def _is_varied(self, tensor: Tensor, *, has_history: bool) -> bool:
        """Whether the tape would differentiate by it: a leaf that was made inside ends there."""
        if not has_history or (id(tensor._storage), gradient_edge(tensor)) in self._arrays:
            return has_history
        root = tensor if tensor._root is None else tensor._root
        return root._grad_fn is not None or (id(root._storage), gradient_edge(root)) in self._arrays

    def find(self, storage: Any, owner: Tensor | None) -> Any:
        """Returns what stands in a storage. Something unknown is noted, and may turn out to be of outside."""
        edge = None if owner is None else gradient_edge(owner)
        key = id(storage), edge
        if key in self._arrays:
            return self._arrays[key]
        value = storage.array if self._outer is None else self._outer.find(storage, owner)
        self.seen.setdefault(key, Captured(value, storage, owner, edge))
        return value


def _trace_value(value: Any) -> Any:
    """Returns a traced value: kernels that run on the host would run at once on a concrete one."""
    return value if isinstance(value, Tracer) else jnp.copy(value)
