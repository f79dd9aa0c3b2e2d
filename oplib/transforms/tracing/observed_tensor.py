"""Tensors whose attributes belong to the tracing thread, so that other threads see and keep their own.

A trace changes the attributes of captured Tensors: gradients, histories, flags and ``data``. While it runs,
they have a class that gives the tracing thread another dictionary of attributes than other threads. A
snapshot puts everything else back, so that the trace leaves no mark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from typing import Any

from oplib.autograd.saved_tensors.hooks import KEEP_VALUES
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.tensor.jax_node import register_kind
from oplib.tensor.storage.class_changes import change_class
from oplib.tensor.storage.escape import note_trace
from oplib.tensor.storage.overlay import Overlay, overlays
from oplib.tensor.views import AliasStorage, ViewStorage
from oplib.tensor.views.lineage import LISTS

from .entries import read_entries, restore_entries
from .paths import CapturedPath

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


def _has_setter(name: str) -> bool:
    """Whether the class, and not the dictionary of a Tensor, decides what an assignment does."""
    attribute = next((vars(cls)[name] for cls in Tensor.__mro__ if name in vars(cls)), None)
    return hasattr(type(attribute), "__set__")


ObservedTensor.__name__ = ObservedTensor.__qualname__ = "Tensor"
ObservedTensor.__module__ = Tensor.__module__
register_kind(ObservedTensor, "oplib.ObservedTensor")


def observe_tensors(tensors: Iterable[tuple[Tensor, type, dict[str, Any]]], overlay: Overlay) -> None:
    """Gives a trace attributes of its own for Tensors, whose classes and attributes before it are given.

    Those of other classes, and views, whose class says whether they are stale, keep theirs.
    """
    for tensor, kind, attributes in tensors:
        if kind is Tensor and tensor._root is None:
            own = overlay.attributes[id(tensor)] = dict(attributes)
            own.update({name: list(own[name]) for name in LISTS if own.get(name) is not None})
            change_class(tensor, ObservedTensor)


def is_observed_tensor(tensor: Tensor) -> bool:
    """Returns whether a trace has attributes of its own for a Tensor, asked in any thread."""
    return type(tensor) is ObservedTensor


@contextlib.contextmanager
def use_overlay(overlay: Overlay, **settings: Any) -> Generator[None]:
    """While a function is traced, this thread sees an overlay, and its calls take the complete path.

    The settings are ``tracing``, ``tracing_scope`` or ``region`` of the mode state during this time. Hooks
    and observers around the program see none of its calls.
    """
    state, outer = modes.state, overlays.current
    watchers, tracing, scope, region = state.watchers, state.tracing, state.tracing_scope, state.region
    pairs, nodes, seen = state.hook_pairs, state.node_hooks, state.observers
    run, logs, in_trace, told = state.run, state.draw_logs, state.in_trace, state.creation_hooks
    try:
        overlays.current = overlay
        state.watchers += 1
        note_trace(state)
        state.hook_pairs = pairs and (KEEP_VALUES,)
        state.observers, state.node_hooks, state.run, state.draw_logs = (), None, None, ()
        state.creation_hooks = ()
        for name, value in settings.items():
            setattr(state, name, value)
        yield
    finally:  # without calls, between which an interrupt could come
        overlays.current = outer
        state.watchers, state.tracing, state.tracing_scope = watchers, tracing, scope
        state.region, state.hook_pairs, state.observers = region, pairs, seen
        state.node_hooks, state.run, state.draw_logs, state.in_trace = nodes, run, logs, in_trace
        state.creation_hooks = told


class StateSnapshot:
    """The attributes of Tensors and the entries of containers, as they were."""

    def __init__(self, tensors: Iterable[Tensor], containers: Iterable[CapturedPath]) -> None:
        self.tensors = [(tensor, tensor.__class__, dict(tensor.__dict__)) for tensor in tensors]
        self._hooks = [
            (hooks, dict(hooks))
            for _, _, attributes in self.tensors
            for name in ("_backward_hooks", "_post_accumulate_hooks")
            if (hooks := attributes.get(name)) is not None
        ]
        self._views = [
            (id(tensor), views, list(views))
            for tensor, _, attributes in self.tensors
            for name in LISTS
            if (views := attributes.get(name)) is not None
        ]
        aliases = {id(alias): alias for tensor in tensors for alias in list_aliases(tensor._storage)}
        self.aliases = [(alias, alias.version) for alias in aliases.values()]
        known = {id(tensor) for tensor, *_ in self.tensors}
        self._others = [
            (view, view.__class__, dict(view.__dict__))
            for _, views, _ in self._views
            for reference in views[1:]
            if (view := reference()) is not None and id(view) not in known
        ]
        self.containers = [
            (path, entries) for path in containers if (entries := read_entries(path.value)) is not None
        ]

    def find_alias(self, alias: AliasStorage) -> tuple[int, int]:
        """Returns the number of a Tensor that shows an alias, and which of its aliases it is."""
        for number, (_, _, attributes) in enumerate(self.tensors):
            shown = list_aliases(attributes["_storage"])
            if alias in shown:
                return number, shown.index(alias)
        raise AssertionError("an alias belongs to a Tensor")

    def restore(self) -> None:
        """Puts everything back. An observed Tensor has kept its attributes, and its class is put back."""
        observed: set[int] = set()
        for tensor, kind, attributes in (*self.tensors, *self._others):
            was_observed = is_observed_tensor(tensor)
            if type(tensor) is not kind:
                change_class(tensor, kind)
            if was_observed:
                observed.add(id(tensor))
                continue
            restore_entries(tensor.__dict__, attributes)
        for held, before in self._hooks:
            held.clear()
            held.update(before)
        for own, views, before in self._views:
            if own not in observed:
                views[:] = before
        for alias, version in self.aliases:
            alias.version = version

    def restore_containers(self) -> None:
        """Puts the entries of containers back."""
        for path, entries in self.containers:
            restore_entries(path.value, entries)


def list_behind(storage: Any) -> list[tuple[str, Any]]:
    """Returns the storages to which a storage refers, by the names of its attributes."""
    if isinstance(storage, ViewStorage):
        return [("base", storage.base)]
    if not isinstance(storage, AliasStorage):
        return []
    former = None if storage.former is None else storage.former()
    behind = ("base", storage.base), ("counter", storage.counter), ("view", storage.view), ("former", former)
    return [(name, other) for name, other in behind if other is not None]


def list_layers(storage: Any) -> list[ViewStorage | AliasStorage]:
    """Returns a storage and those behind it, up to the one that holds its array, which is left out."""
    layers: list[ViewStorage | AliasStorage] = []
    owner = storage.owner
    while storage is not owner:
        layers.append(storage)
        storage = storage.base
    return layers


def list_aliases(storage: Any) -> list[AliasStorage]:
    """Returns the storages of ``tensor.data`` between a storage and the one that holds its array."""
    return [layer for layer in list_layers(storage) if isinstance(layer, AliasStorage)]
