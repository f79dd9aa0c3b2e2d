"""``allow_mutation_on_saved_tensors``: writing in place into what a backward pass will read.

Arrays are immutable, so what was saved is never lost and nothing is ever copied: the context replaces the
check of versions by a look at which value was saved. The objects are those that torch has, with their sizes;
where torch clones a tensor before a write, here a write is noticed afterwards, by the version.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from oplib.errors import AutogradError, MisplacedCallError
from oplib.tensor import Tensor, box

from .hooks import saved_tensors_hooks

Tid = tuple[int, int, int]
Sid = tuple[int, int]

_enabled = False
_entering = threading.Lock()


def is_mutation_allowed() -> bool:
    """Whether the context is entered, in any thread of the process."""
    return _enabled


def get_sid(tensor: Tensor) -> Sid:
    """Returns what all tensors that show one value of one storage have in common."""
    storage = tensor._storage
    return id(storage.owner), storage.version


def get_tid(tensor: Tensor) -> Tid:
    """Returns the same for one tensor among them."""
    return (id(tensor), *get_sid(tensor))


class Handle:
    """Stands in the graph for one saved value; while the graph holds it, the value can be found.

    Attributes:
        tensor: that was saved, without its history.
        array: its value then.
        version: of its storage then.
    """

    __slots__ = ("__weakref__", "array", "tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()
        self.array = tensor._storage.array
        self.version = tensor._storage.version


class AllowMutationOnSavedContext:
    """What the context knows of saved tensors.

    Attributes:
        original: by handle, the saved tensors that nobody has written since.
        cloned: by handle, the old values of the others.
        tid_to_weakhandle: the handle of each saved value, by tensor.
        sid_to_tid: the tensors of each saved value.
    """

    def __init__(self) -> None:
        self._cloned: MutableMapping[Handle, Tensor] = WeakKeyDictionary()
        self._original: MutableMapping[Handle, Tensor] = WeakKeyDictionary()
        self.tid_to_weakhandle: MutableMapping[Tid, Handle] = WeakValueDictionary()
        self.sid_to_tid: dict[Sid, set[Tid]] = {}

    @property
    def original(self) -> MutableMapping[Handle, Tensor]:
        """See above."""
        CloneArgBeforeMutateMode(self).note_writes()
        return self._original

    @property
    def cloned(self) -> MutableMapping[Handle, Tensor]:
        """See above."""
        CloneArgBeforeMutateMode(self).note_writes()
        return self._cloned

    def clear(self) -> None:
        """Forgets everything."""
        for entries in (self._cloned, self._original, self.tid_to_weakhandle, self.sid_to_tid):
            entries.clear()


class SwapWithCloned(saved_tensors_hooks):
    """Keeps a handle in the place of each saved tensor."""

    def __init__(self, ctx: AllowMutationOnSavedContext) -> None:
        def pack_hook(tensor: Tensor) -> Handle:
            tid = get_tid(tensor)
            ctx.sid_to_tid.setdefault(get_sid(tensor), set()).add(tid)
            handle = ctx.tid_to_weakhandle.get(tid)
            if handle is None or handle.tensor._storage is not tensor._storage:  # an id that was used before
                handle = ctx.tid_to_weakhandle[tid] = Handle(tensor)
                ctx._original[handle] = handle.tensor
            return handle

        def unpack_hook(handle: Handle) -> Tensor:
            known = handle in ctx._cloned or handle in ctx._original
            if not _enabled or not known:
                raise MisplacedCallError(
                    "allow_mutation_on_saved_tensors: Trying to backward outside of the "
                    "'allow_mutation_on_saved_tensors' context in which the graph was originally recorded. "
                    "The values that it saved are known in there only. Run the backward inside the block."
                )
            return box(handle.array)

        super().__init__(pack_hook, unpack_hook)


class CloneArgBeforeMutateMode:
    """Sees to it that what is written stays readable: as arrays are immutable, by noticing it.

    Args:
        ctx: whose saved tensors are looked after.
    """

    def __init__(self, ctx: AllowMutationOnSavedContext) -> None:
        self.ctx = ctx

    def note_writes(self) -> None:
        """Moves the handles of tensors that have been written from ``original`` to ``cloned``."""
        for handle in list(self.ctx._original):
            if handle.tensor._storage.version != handle.version:
                del self.ctx._original[handle]
                self.ctx._cloned[handle] = box(handle.array)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.note_writes()


@contextmanager
def allow_mutation_on_saved_tensors() -> Generator[AllowMutationOnSavedContext]:
    """Lets tensors that were saved for a backward pass be written in place; the pass reads the old values.

    Forward and backward must both be in the block. It costs no memory beyond what the graph holds anyway.

    Yields:
        An object that tells how many saved tensors were written: ``len(ctx.cloned)``, ``len(ctx.original)``.

    Raises:
        AutogradError: the context is entered already, in this thread or another.
        MisplacedCallError: in a backward pass outside of the block.

    Example:
        >>> import oplib
        >>> from oplib.autograd.graph import allow_mutation_on_saved_tensors
        >>> x = oplib.tensor([2.0], requires_grad=True)
        >>> with allow_mutation_on_saved_tensors():
        ...     y = x.clone()
        ...     z = y**3
        ...     y = y.add_(1)
        ...     z.sum().backward()
        >>> x.grad
        tensor([12.])
    """
    _enter()
    ctx: Any = AllowMutationOnSavedContext()
    try:
        with SwapWithCloned(ctx), CloneArgBeforeMutateMode(ctx):
            yield ctx
    finally:
        ctx.clear()
        _leave()


def _enter() -> None:
    """Sets the flag; where it is set already, whoever set it keeps its context."""
    global _enabled  # noqa: PLW0603  a flag of the process, as in torch
    with _entering:
        if _enabled:
            raise AutogradError(
                "allow_mutation_on_saved_tensors: the context cannot be nested. It is entered already, in "
                "this thread or another, and stays as it is. Use the one that is there."
            )
        _enabled = True


def _leave() -> None:
    global _enabled  # noqa: PLW0603
    _enabled = False
