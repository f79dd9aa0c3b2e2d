"""``allow_mutation_on_saved_tensors``: permits in-place writes of tensors that a backward pass will read.

Arrays are immutable, so saved values are never lost and nothing is copied. The context finds the saved value
instead of checking versions. Objects and their sizes are those of torch. Torch clones a tensor before a
write; oplib notices a write afterwards, by the array.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager, nullcontext
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from oplib.errors import AutogradError, MisplacedCallError
from oplib.tensor import Tensor, box

from .hooks import saved_tensors_hooks

Tid = tuple[int, int, int]
Sid = tuple[int, int]

_active = threading.Lock()  # held while the context is active, in any thread of the process


is_mutation_allowed = _active.locked
"""Returns whether the context is active, in any thread of the process."""


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
    """

    __slots__ = ("__weakref__", "array", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()
        self.array = tensor._storage.array

    @property
    def is_written(self) -> bool:
        """Whether the tensor has been written since it was saved."""
        return self.tensor._storage.array is not self.array


class AllowMutationOnSavedContext:
    """The saved tensors of one context.

    Attributes:
        handles: the handles of all saved values.
        tid_to_weakhandle: the handle of each saved value, by tensor.
        sid_to_tid: the tensors of each saved value.
    """

    def __init__(self) -> None:
        self.handles: WeakSet[Handle] = WeakSet()
        self.tid_to_weakhandle: MutableMapping[Tid, Handle] = WeakValueDictionary()
        self.sid_to_tid: dict[Sid, set[Tid]] = {}

    @property
    def original(self) -> MutableMapping[Handle, Tensor]:
        """By handle, the saved tensors that have not been written."""
        return WeakKeyDictionary({handle: handle.tensor for handle in self.handles if not handle.is_written})

    @property
    def cloned(self) -> MutableMapping[Handle, Tensor]:
        """By handle, the old values of tensors that have been written."""
        return WeakKeyDictionary({handle: box(handle.array) for handle in self.handles if handle.is_written})

    def clear(self) -> None:
        """Removes all entries."""
        for entries in (self.handles, self.tid_to_weakhandle, self.sid_to_tid):
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
                ctx.handles.add(handle)
            return handle

        def unpack_hook(handle: Handle) -> Tensor:
            if handle not in ctx.handles:
                raise MisplacedCallError(
                    "allow_mutation_on_saved_tensors: Trying to backward outside of the "
                    "'allow_mutation_on_saved_tensors' context in which the graph was originally recorded. "
                    "The values that it saved are known in there only. Run the backward inside the block."
                )
            return box(handle.array)

        super().__init__(pack_hook, unpack_hook)


class CloneArgBeforeMutateMode(nullcontext[AllowMutationOnSavedContext]):
    """torch's mode that clones a saved tensor before a write. Arrays are immutable, so it does nothing."""


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
    if not _active.acquire(blocking=False):
        raise AutogradError(
            "allow_mutation_on_saved_tensors: the context cannot be nested. It is entered already, in "
            "this thread or another, and stays as it is. Use the one that is there."
        )
    ctx = AllowMutationOnSavedContext()
    try:
        with SwapWithCloned(ctx):
            yield ctx
    finally:
        ctx.clear()
        _active.release()
