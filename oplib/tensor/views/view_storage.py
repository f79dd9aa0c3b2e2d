"""Storages that read and write another storage: those of views, and of ``tensor.data``."""

from __future__ import annotations

import copyreg
import math
import weakref
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from oplib.errors import AutogradError, describe
from oplib.protocols import Values
from oplib.tensor.storage.cut import CutStorage
from oplib.tensor.storage.escape import refuse_escape, runs_at_once
from oplib.tensor.storage.fresh import (
    FreshStorage,
    buffers,
    exchange_for_own,
    get_array,
    get_owner_array,
    rewrite,
)
from oplib.tensor.storage.storage import LayeredStorage, Storage
from oplib.tensor.storage.tensor_slots import TensorSlots

from .chain import Chain, make_chain
from .frame import Starts, find_positions

_new: Any = object.__new__
_ARRAY_HOLDERS = (Storage, FreshStorage)
_get_storage = attrgetter("_storage")


class ViewStorage(LayeredStorage):
    """The storage of a view. It reads through its chain when needed, and writes through it into its base.

    A value is cached while the base holds the array that it was read from, which is compared by identity. So
    a view never shows an old value. Traced values are not cached, because they may belong to an inner trace.
    The version is that of the base.

    Attributes:
        base: the storage that it reads and writes. It belongs to the tensor whose history the view shares.
        chain: the frames from base to view.
        starts: the starts of their windows.
    """

    __slots__ = ("_kept", "chain", "starts")

    def __init__(self, base: Storage, chain: Chain, starts: Starts) -> None:
        self.base = base
        self.chain = chain
        self.starts = starts
        # one attribute, so that threads never see half of it
        self._kept: tuple[weakref.ref[Any], Any] | None = None

    @property
    def array(self) -> Any:
        """The current array. Reading a small part of a fresh base leaves the base fresh."""
        base = self.base
        if base.__class__ is FreshStorage:
            part = self._read_fresh(base)
            if part is not None:
                return part
        whole = base.array
        kept = self._kept
        if kept is not None and kept[0]() is whole:
            return kept[1]
        part = self.chain.read(whole, self.starts)
        self._hold(whole, part)
        return part

    def _read_fresh(self, base: Storage) -> Any:
        """Reads a large base and leaves it fresh; None if it has to be read like any other.

        No other thread uses the buffer of the base until the call is on its way. The first read of its kind
        compiles, and takes no lock.
        """
        if not self.chain.is_large or not runs_at_once():
            return None
        with buffers:
            if base.__class__ is not FreshStorage or not self.chain.note_read(get_array(base)):
                return None
            whole = get_array(base)
            kept = self._kept
            if kept is not None and kept[0]() is whole:
                return kept[1]
            part = self.chain.read(whole, self.starts)
            self._hold(whole, part)
            return part

    @array.setter
    def array(self, value: Any) -> None:
        """Stores a value that is known to be the view's, so that it need not be read."""
        self._hold(self.base.array, value)

    def _hold(self, whole: Any, part: Any) -> None:
        self._kept = None if isinstance(part, Tracer) else (weakref.ref(whole), part)

    def rebuild(self, make: Callable[[Storage], Storage]) -> Storage:  # noqa: D102  described in Storage
        return make_view_storage(self.base.rebuild(make), self.chain, self.starts)

    @property
    def path(self) -> tuple[Chain, Starts, Any]:
        """The chain from the root, whose history the view shares, its starts, and the spec of the root."""
        base = self.base
        if isinstance(base, AliasStorage) and base.view is not None:
            before, starts, spec = base.view.path
            shaped = before.reshape(starts, self.chain.in_shape)  # `data` may have another shape
            if shaped is None:
                return before, starts, spec
            chain, starts = shaped
            return *chain.extend(self.chain, starts, self.starts), spec
        return self.chain, self.starts, base.spec

    @property
    def spec(self) -> Any:
        """An object with shape and dtype. Reading it computes nothing."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the view."""
        return self.chain.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the view."""
        return self.chain.part_dtype(self.base.spec.dtype)

    @property
    def ndim(self) -> int:
        """The number of dimensions of the view."""
        return len(self.chain.shape)

    @property
    def size(self) -> int:
        """The number of items of the view."""
        return math.prod(self.chain.shape)

    @property
    def layout(self) -> tuple[tuple[int, ...], int]:
        """Strides and offset, in items."""
        return self.chain.lay_out(self.starts, self.base.layout)

    def read_item(self) -> Any:  # noqa: D102  described in Storage
        base, chain = self.base, self.chain
        if base.__class__ is not Storage or not chain.is_strided or math.prod(chain.shape) != 1:
            return None
        try:
            whole = memoryview(base.array)
        except (BufferError, TypeError):  # not in the memory of the CPU, of no type of numpy, traced
            return None
        return np.asarray(whole).item(chain.lay_out(self.starts)[1])

    def write(self, array: Any, view: TensorSlots | None = None) -> None:
        """Writes through the chain into the base, and counts the write there.

        Args:
            array: the value of the view.
            view: the tensor of this storage, where nobody has asked whether JAX traces.

        Raises:
            TracingError: the base outlives the trace of its new value.
        """
        base = self.base
        while True:
            seen = base.array if base.__class__ is Storage else get_owner_array(base)
            if self.exchange(seen, array, view=view):
                return  # else another thread has written elsewhere in the base

    def replace(self, array: Any) -> None:
        """Writes through the chain into the base without counting."""
        while not self.exchange(self.owner.array, array, counted=False):
            pass

    def exchange(
        self, seen: Any, array: Any, *, counted: bool = True, view: TensorSlots | None = None
    ) -> bool:
        """Writes through the chain, unless the base was written since the owner held ``seen``."""
        base, chain = self.base, self.chain
        if chain.is_large and counted:
            done = self._exchange_large(seen, array)
            if done is not None:
                return done
        if not is_injective(base):  # `expanded.detach()[0]`: the base has one item for several of its own
            owner, chain, starts = find_way(self)
            if counted and owner.is_inference:
                owner.check_mode()
            done = make_view_storage(owner, chain, starts).exchange(seen, array, counted=False, view=view)
            base.version += done and counted
            return done
        whole = chain.write(base.array, array, self.starts)
        if view is not None:
            refuse_escape(whole, view, "setitem_")
        if not base.exchange(seen, whole, counted=counted):
            return False
        if array.shape == chain.shape and isinstance(array, jax.Array):
            self._hold(whole, array)
        return True

    def _exchange_large(self, seen: Any, array: Any) -> bool | None:
        """Writes into the buffer of the base if that is fresh, else into a copy, and leaves the base fresh.

        Returns:
            As ``exchange``; None if an array is traced or on several devices, or the base is an alias.
        """
        base, run_here = self.base, runs_at_once() and not isinstance(array, Tracer)
        if not run_here or base.__class__ not in _ARRAY_HOLDERS or isinstance(seen, Tracer):
            return None
        if seen.sharding.__class__ is not SingleDeviceSharding:
            return None
        run, operands, has_run = self.chain.find_writer(seen, array, self.starts)
        if has_run and base.__class__ is FreshStorage:
            return rewrite(base, run, operands, seen)
        if base.array is not seen:  # from here on no other thread uses the buffer
            return False
        return exchange_for_own(base, seen, run(jnp.copy(seen), *operands))


class AliasStorage(LayeredStorage):
    """The storage of ``tensor.data``: the contents of another storage with a version of its own.

    Attributes:
        base: the other storage. A write through the alias is not counted there.
        counter: the storage whose version counts the writes through the alias.
        former: a weak reference to the storage that a tensor had before ``tensor.data = other``. The writes
            through the alias count there too: nodes have saved it.
        view: the storage of the view that this was; it has the way to the root, whose history the view still
            shares. None for other tensors.
    """

    __slots__ = ("counter", "former", "view")

    def __init__(self, base: Storage, version: int = 0) -> None:
        self.base = base.base if isinstance(base, AliasStorage) else base
        self.counter = Storage(None)
        self.counter.version = version
        self.former: weakref.ref[Storage] | None = None
        self.view: ViewStorage | None = None

    @staticmethod
    def move(old: Storage, base: Storage, *, has_views: bool, is_view: bool) -> AliasStorage:
        """Makes the storage of a tensor that is given other contents, and keeps its version and view."""
        made = AliasStorage(base, old.version)
        while isinstance(old, CutStorage):  # nothing else holds it
            old = old.base
        if isinstance(old, AliasStorage):
            made.counter, made.former, made.view = old.counter, old.former, old.view
        elif isinstance(old, ViewStorage):
            made.view = old if is_view else None  # else the tensor is a root that shows its memory so
            made.counter = old.base
            while isinstance(made.counter, ViewStorage):
                made.counter = made.counter.base
        elif has_views:
            made.counter = old
        else:  # a reference that is not weak would keep the old array alive for nobody
            made.former = weakref.ref(old)
        return made

    @property
    def path(self) -> tuple[Chain, Starts, Any]:
        """The chain from the root, its starts, and the spec of the root, if this was a view's."""
        assert self.view is not None
        return self.view.path

    @property
    def array(self) -> Any:
        """The current array."""
        return self.base.array

    @property
    def version(self) -> int:
        """The number of in-place writes through this alias or its views."""
        former = None if self.former is None else self.former()
        if former is not None:
            self.counter.version = former.version
        return self.counter.version

    @version.setter
    def version(self, value: int) -> None:
        self.counter.version = value
        former = None if self.former is None else self.former()
        if former is not None:
            former.version = value

    def rebuild(self, make: Callable[[Storage], Storage]) -> Storage:  # noqa: D102  described in Storage
        made = AliasStorage(self.base.rebuild(make))
        made.counter, made.former, made.view = self.counter, self.former, self.view
        return made

    def write(self, array: Any) -> None:
        """Replaces the array in the base, and counts the write here."""
        self.base.replace(array)
        self.version += 1

    def replace(self, array: Any) -> None:
        """Replaces the array in the base."""
        self.base.replace(array)

    def exchange(self, seen: Any, array: Any, *, counted: bool = True) -> bool:
        """Replaces the array in the base, unless another thread has, and counts the write here."""
        done = self.base.exchange(seen, array, counted=False)
        if done and counted:
            self.version += 1
        return done


def find_way(storage: Any) -> tuple[Any, Any, Starts]:
    """Returns the storage below views and aliases, the chain that leads from it, if any, and its starts."""
    chain, starts = None, ()
    while isinstance(storage, (AliasStorage, ViewStorage)):  # a detached view of a view, for example
        if isinstance(storage, ViewStorage):
            own = storage.chain, storage.starts
            chain, starts = own if chain is None else own[0].extend(chain, own[1], starts)
        storage = storage.base
    return storage, chain, starts


def is_injective(storage: Any) -> bool:
    """Returns whether neither a storage nor one below it shows an item twice."""
    while isinstance(storage, LayeredStorage):
        if isinstance(storage, ViewStorage) and not storage.chain.is_injective:
            return False
        storage = storage.base
    return True


def refuse_shared_items(
    tensor: Any, op: str, *, is_uniform: bool = False, is_recorded: Callable[[], bool] | None = None
) -> None:
    """Raises if several items of a tensor share one memory location.

    Args:
        tensor: the Tensor to write.
        op: what writes it.
        is_uniform: all items get the same value, so that they may share one.
        is_recorded: tells whether the tape records the write. A view of a detached tensor whose items share
            memory can only be written without: the write changes other items of that tensor.
    """
    if is_injective(tensor._storage):
        return
    owner, chain, _ = find_way(tensor._storage)
    if (
        chain is None
        or not is_injective(owner)  # `x.data = expanded` in a trace
        or not (chain.is_injective or 0 in chain.shape or (is_uniform and chain.is_strided))
    ):
        subject, cure = "the written-to tensor", ", an expanded view. Write into tensor.clone()."
    elif (
        is_recorded is None
        or tensor._root is None
        or is_injective(tensor._root._storage)
        or not is_recorded()
    ):
        return
    else:
        subject, cure = "the base", ", and the write is recorded. Write into a clone() of its base."
    raise AutogradError(
        f"{op}: unsupported operation: more than one element of {subject} refers to a single memory "
        f"location. Got {describe(tensor._storage.spec)}{cure}"
    )


def refuse_writes(tensors: Sequence[Any], op: str) -> None:
    """Raises if one of the tensors that a call is about to write may not be written.

    Args:
        tensors: the Tensors to write.
        op: what writes them.
    """
    for tensor in () if _have_own_memory(tensors) else tensors:
        refuse_shared_items(tensor, op)
        owner: Any = tensor._storage.owner
        if owner.is_inference:
            owner.check_mode()


def refuse_shared_memory(tensors: Sequence[Any], op: str, *, readers: Sequence[Any] = ()) -> None:
    """Raises if two of the tensors that one call gives new values share a memory location.

    Args:
        tensors: the Tensors to write.
        op: what writes them.
        readers: the other arguments, if they would not see the writes.
    """
    both = *tensors, *readers
    if _have_own_memory(both) or len({tensor._storage.owner for tensor in both}) == len(both):
        return
    parts: dict[int, list[tuple[int, int, Any]]] = {}
    for number, tensor in enumerate(both):
        below, chain, starts = find_way(tensor._storage)
        size, owner, is_written = below.spec.size, below.owner, number < len(tensors)
        part = tensor, is_written, (size,), ((1,), 0)
        if chain is None:
            parts.setdefault(id(owner), []).append((0, size - 1, part))
        elif 0 not in chain.shape and chain.is_strided and not any(isinstance(s, Tracer) for s in starts):
            strides, offset = chain.lay_out(starts)
            last = offset + sum(step * (n - 1) for step, n in zip(strides, chain.shape, strict=True))
            part = tensor, is_written, chain.shape, (strides, offset)
            parts.setdefault(id(owner), []).append((offset, last, part))
    for group in parts.values():
        _compare_parts(sorted(group, key=lambda part: part[:2]), op)


def _have_own_memory(tensors: Sequence[Any]) -> bool:
    """Whether no tensor is a view and no two share a storage. Others may have memory of their own too."""
    storages = set(map(_get_storage, tensors))
    return len(storages) == len(tensors) and set(map(type, storages)).issubset(_ARRAY_HOLDERS)


def _compare_parts(parts: Sequence[tuple[int, int, Any]], op: str) -> None:
    """Raises if two parts of one memory overlap. They are in order of their first items."""
    for number, (_, last, (tensor, is_written, *own)) in enumerate(parts):
        for first, _, (other, is_other_written, *others) in parts[number + 1 :]:
            if first > last:
                break
            if not (is_written or is_other_written):
                continue
            if np.intersect1d(find_positions(*own), find_positions(*others)).size:
                why = (
                    "two written arguments share memory, and each has a new value for it"
                    if is_written and is_other_written
                    else "an argument shares memory with a written one, and in a trace does not see it"
                )
                raise AutogradError(
                    f"{op}: unsupported operation: {why}. Got {describe(tensor._storage.spec)} and "
                    f"{describe(other._storage.spec)}. Write into a clone() of one, or in two calls."
                )


def make_view_storage(base: Storage, chain: Chain, starts: Starts) -> ViewStorage:
    """Makes the storage of a view without calling the constructor."""
    storage = _new(ViewStorage)
    storage.base = base
    storage.chain = chain
    storage.starts = starts
    storage._kept = None
    return storage


def _reduce_view(storage: ViewStorage) -> Values:
    return _restore_view, (storage.base, storage.chain.frames, storage.starts)


def _restore_view(base: Storage, frames: Values, starts: Starts) -> ViewStorage:
    return ViewStorage(base, make_chain(frames), starts)


copyreg.pickle(ViewStorage, _reduce_view)
copyreg.pickle(AliasStorage, lambda storage: (AliasStorage, (storage.base, storage.version)))
