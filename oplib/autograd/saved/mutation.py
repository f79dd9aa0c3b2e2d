"""``allow_mutation_on_saved_tensors``: permits in-place writes of tensors that a backward pass will read.

Arrays are immutable, so saved values are never lost and nothing is copied. The context finds the saved value
instead of checking versions. Objects and their sizes are those of torch. Torch clones a tensor before a
write; oplib notices a write afterwards, by the version.
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
    """Returns whether the context is active, in any thread of the process."""
    return _enabled


def get_sid(tensor: Tensor) -> Sid:
    """Returns a key that is equal for all tensors that show one value of one storage."""
    storage = tensor._storage
    return id(storage.owner), storage.version


def get_tid(tensor: Tensor) -> Tid:
    """Returns a key for one tensor with one value of its storage."""
    return (id(tensor), *get_sid(tensor))


class Handle:
    """The object in the graph for one saved value. While the graph holds it, the value can be found.

    Attributes:
        tensor: the saved tensor, without history.
        array: its value when it was saved.
        version: the version of its storage then.
    """

    __slots__ = ("__weakref__", "array", "tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()
        self.array = tensor._storage.array
        self.version = tensor._storage.version


class AllowMutationOnSavedContext:
    """The saved tensors of one context.

    Attributes:
        original: by handle, the saved tensors that have not been written.
        cloned: by handle, the old values of tensors that have been written.
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
        """See the class."""
        CloneArgBeforeMutateMode(self).note_writes()
        return self._original

    @property
    def cloned(self) -> MutableMapping[Handle, Tensor]:
        """See the class."""
        CloneArgBeforeMutateMode(self).note_writes()
        return self._cloned

    def clear(self) -> None:
        """Removes all entries."""
        for entries in (self._cloned, self._original, self.tid_to_weakhandle, self.sid_to_tid):
            entries.clear()


class SwapWithCloned(saved_tensors_hooks):
    """Hooks that replace each saved tensor by a handle."""

    def __init__(self, ctx: AllowMutationOnSavedContext) -> None:
        def pack_hook(tensor: Tensor) -> Handle:
            tid = get_tid(tensor)
            ctx.sid_to_tid.setdefault(get_sid(tensor), set()).add(tid)
            handle = ctx.tid_to_weakhandle.get(tid)
            if handle is None or handle.tensor._storage is not tensor._storage:  # the id was reused
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
    """Keeps old values readable. Arrays are immutable, so it only has to notice writes.

    Args:
        ctx: the context whose saved tensors it watches.
    """

    def __init__(self, ctx: AllowMutationOnSavedContext) -> None:
        self.ctx = ctx

    def note_writes(self) -> None:
        """Moves the handles of written tensors from ``original`` to ``cloned``."""
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
    """Permits in-place writes of tensors saved for a backward pass. The pass reads the old values.

    Forward and backward must both be in the block. It needs no memory beyond what the graph holds.

    Yields:
        An object whose ``cloned`` holds the written saved tensors, and ``original`` the others.

    Raises:
        AutogradError: the context is already active, in this thread or another.
        MisplacedCallError: a backward pass runs outside of the block.

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
    """Sets the flag of the process. If it is set, this raises and the active context stays."""
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
