"""The state of Tensors and containers before a trace, so that the trace leaves no mark on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oplib.tensor import Tensor
from oplib.tensor.storage.class_changes import change_class
from oplib.tensor.views import AliasStorage

from .entries import read_entries, restore_entries
from .observed_tensor import is_observed_tensor
from .paths import CapturedPath


class StateSnapshot:
    """The attributes of Tensors and the entries of containers, as they were.

    Args:
        tensors: the Tensors.
        containers: the paths of the containers.
    """

    def __init__(self, tensors: Iterable[Tensor], containers: Iterable[CapturedPath]) -> None:
        self.tensors = [(tensor, tensor.__class__, dict(tensor.__dict__)) for tensor in tensors]
        self._hooks = [
            (hooks, dict(hooks))
            for _, _, attributes in self.tensors
            for name in ("_backward_hooks", "_post_accumulate_hooks")
            if (hooks := attributes.get(name)) is not None
        ]
        self._views = {
            id(tensor): (attributes["_views"], list(attributes["_views"]))
            for tensor, _, attributes in self.tensors
            if attributes.get("_views") is not None
        }
        self.aliases = {
            id(alias): (alias, alias.version) for tensor in tensors for alias in list_aliases(tensor._storage)
        }
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
        for tensor, kind, attributes in self.tensors:
            was_observed = is_observed_tensor(tensor)
            if type(tensor) is not kind:
                change_class(tensor, kind)
            if was_observed:
                self._views.pop(id(tensor), None)
                continue
            _put_back(tensor.__dict__, attributes)
        for held, before in (*self._hooks,):
            held.clear()
            held.update(before)
        for views, before in self._views.values():
            views[:] = before
        for alias, version in self.aliases.values():
            alias.version = version

    def restore_containers(self) -> None:
        """Puts the entries of containers back."""
        for path, entries in self.containers:
            restore_entries(path.value, entries)


def _put_back(held: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Makes a dictionary what it was, touching only the keys that differ."""
    for key in [key for key in held if key not in before]:
        del held[key]
    for key, value in before.items():
        if key not in held or held[key] is not value:
            held[key] = value


def list_aliases(storage: Any) -> list[AliasStorage]:
    """Returns the storages of ``tensor.data`` between a storage and the one that holds its array."""
    found: list[AliasStorage] = []
    owner = storage.owner
    while storage is not owner:
        if isinstance(storage, AliasStorage):
            found.append(storage)
            storage = storage.cell
        else:
            storage = storage.base
    return found
