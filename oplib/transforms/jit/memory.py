"""The memory that Tensors show after a call: which storages are there already, and how others are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax.core import Tracer

from oplib.tensor import Storage
from oplib.tensor.views import AliasStorage, ViewStorage
from oplib.transforms.tracing.observed_tensor import StateSnapshot, list_behind, list_layers

from .effects import Held, NewStorage, StorageSource


class MemoryAfterCall:
    """Describes storages, for one trace.

    A Tensor that was made inside and that shows a part of other memory keeps its items only, if nothing else
    shows that memory after the call. This is known at the end only, so everything may be described twice.

    Args:
        snapshot: the state before the trace.
        put: returns the number of the array of a storage among the outputs of the program.

    Attributes:
        new: the storages that a call makes.
        shown: the storages that hold arrays, made inside, each with those that show it after the call.
    """

    def __init__(self, snapshot: StateSnapshot, put: Callable[[Storage], int]) -> None:
        self.new: list[NewStorage] = []
        self._put = put
        self._held = _list_storages(snapshot)
        self._numbers: dict[Storage, int] = {}
        self.shown: dict[Storage, set[Storage]] = {}
        self._shared: frozenset[Storage] = frozenset()

    def must_begin_again(self) -> bool:
        """Whether several Tensors show memory that was described as copies, and forgets all descriptions."""
        shared = frozenset(owner for owner, storages in self.shown.items() if len(storages) > 1)
        if shared == self._shared:
            return False
        self.new, self._numbers, self.shown, self._shared = [], {}, {}, shared
        return True

    def is_copied(self, storage: Any) -> bool:
        """Whether a Tensor keeps its items only, because nothing else shows memory that was made inside."""
        if has_traced_start(storage):
            return True  # it shows other items at each call
        owner = storage.owner
        if storage is owner or storage in self._numbers or owner in self._held or owner in self._shared:
            return False
        if isinstance(storage, ViewStorage) and not storage.chain.is_injective:
            return False  # a copy could be written
        self._note(storage)
        return True

    def loses_base(self, storage: Any) -> bool:
        """Whether a copy stands for a view of memory that is there after the call too."""
        owner = storage.owner
        return has_traced_start(storage) and (owner in self._held or len(self.shown.get(owner, ())) > 0)

    def _note(self, storage: Storage) -> None:
        self.shown.setdefault(storage.owner, set()).add(storage)

    def copy(self, storage: Any) -> int:
        """Returns the number of a new storage with the items that a storage shows."""
        number = self._numbers.get(storage)
        if number is None:
            output, version = self._put(storage), storage.version
            number = self._add(storage, NewStorage(output, version, storage.is_inference))
        return number

    def _add(self, storage: Storage, described: NewStorage) -> int:
        number = self._numbers[storage] = len(self.new)
        self.new.append(described)
        return number

    def find(self, storage: Any) -> StorageSource:
        """Returns a storage after the call: one that was there before, or a new one that is described."""
        held = self._held.get(storage)
        if held is not None:
            return held
        self._note(storage)
        number = self._numbers.get(storage)
        if number is not None:
            return number
        if isinstance(storage, ViewStorage):
            base = self.find(storage.base)
            described = NewStorage(None, base=base, chain=storage.chain, starts=storage.starts)
        elif isinstance(storage, AliasStorage):
            described = self._describe_alias(storage)
        else:
            return self.copy(storage)
        return self._add(storage, described)

    def _describe_alias(self, alias: AliasStorage) -> NewStorage:
        """Describes the storage of ``tensor.data``, or of a Tensor whose ``data`` was assigned."""
        former = None if alias.former is None else alias.former()
        own = self._held.get(alias.counter)
        return NewStorage(
            None,
            alias.version,
            base=self.find(alias.base),
            counter=own,
            former=None if former is None else self._held.get(former),
            view=None if alias.view is None else self.find(alias.view),
        )


def has_traced_start(storage: Any) -> bool:
    """Whether a view begins at a place that is traced."""
    layers = [layer for layer in list_layers(storage) if isinstance(layer, ViewStorage)]
    return any(isinstance(start, Tracer) for layer in layers for start in layer.starts)


def _list_storages(snapshot: StateSnapshot) -> dict[Storage, Held]:
    """Returns every storage that exists before the trace, with the way to it."""
    held: dict[Storage, Held] = {}
    for number, (_, _, attributes) in enumerate(snapshot.tensors):
        ahead: list[tuple[Any, tuple[str, ...]]] = [(attributes["_storage"], ())]
        while ahead:
            storage, way = ahead.pop()
            if storage not in held:
                held[storage] = Held(number, ".".join(way))
                ahead += [(other, (*way, name)) for name, other in list_behind(storage)]
    return held
