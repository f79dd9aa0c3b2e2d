"""Storage: the object that holds a Tensor's current array and its version."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any, ClassVar

from oplib.tensor.devices.layout import place_like


class Storage:
    """The mutable object behind a Tensor. The results of ``detach()`` share it.

    All code that needs the values of a Tensor reads ``storage.array``. So a subclass can compute the array
    when it is read, as the storage of a view does (``tensor/views``). Code that needs only shape and dtype
    reads ``spec``, which computes nothing. To find out whether two tensors share memory, compare the
    ``owner`` of their storages. An array that several devices hold keeps its layout when it is written.

    Attributes:
        array: the current ``jax.Array`` (or tracer). It is replaced, never written.
        version: the number of in-place writes.
        is_inference: whether it was made in inference mode, and so counts no versions.
    """

    __slots__ = ("__weakref__", "array", "version")

    is_inference: ClassVar[bool] = False

    array: Any
    version: int

    def __init__(self, array: Any) -> None:
        self.array = array
        self.version = 0

    def __reduce_ex__(self, protocol: Any) -> Any:
        return copyreg.dispatch_table[Storage](self)  # of fresh and observed storages too

    def write(self, array: Any) -> None:
        """Replaces the array and counts the write."""
        self.replace(array)
        self.version += 1

    def replace(self, array: Any) -> None:
        """Replaces the array without counting a write, so that saved values stay valid."""
        self.array = place_like(array, self.array)

    def exchange(self, seen: Any, array: Any, *, counted: bool = True) -> bool:
        """Writes a value that was computed from an earlier one, unless another thread has written since.

        This is atomic without a lock, which would cost more than the rest. Python switches threads only when
        a function begins, after a call and at the end of a loop, and none of these occurs here.

        Args:
            seen: the array of the owner when the earlier value was read.
            array: the new value.
            counted: whether the version counts the write.

        Returns:
            Whether the value was written. If not, read and compute again.
        """
        array = place_like(array, seen)
        if self.array is not seen:
            return False
        self.array = array
        self.version += counted
        return True

    def rebuild(self, make: Callable[[Storage], Storage]) -> Storage:
        """Returns a storage like this one, on what a function makes of the one below views and aliases."""
        return make(self)

    @property
    def owner(self) -> Storage:
        """The storage that holds the array. For a view it is the last base."""
        return self

    @property
    def spec(self) -> Any:
        """An object with the shape, dtype, ndim and size of the array. Reading it computes nothing."""
        return self.array

    @property
    def layout(self) -> tuple[tuple[int, ...], int]:
        """The strides and offset, in items, that torch would have. JAX does not have them."""
        return contiguous_strides(self.array.shape), 0

    def read_item(self) -> Any:
        """Returns the item of a part of one item, read where it lies; None if its array must be computed."""
        return None


class LayeredStorage(Storage):
    """A storage that shows another one: that of a view, of ``tensor.data``, of a detached Tensor in a trace.

    Attributes:
        base: the other storage. A write shows there.
    """

    __slots__ = ("base",)

    base: Storage

    @property
    def version(self) -> int:
        """The number of in-place writes of the base."""
        return self.base.version

    @version.setter
    def version(self, value: int) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]  a property here
        self.base.version = value

    @property
    def is_inference(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  a property here
        """Whether the base was made in inference mode."""
        return self.base.is_inference

    @property
    def owner(self) -> Storage:
        """The storage that holds the array."""
        base = self.base
        return base if base.__class__ is Storage else base.owner

    @property
    def spec(self) -> Any:
        """An object with shape and dtype. Reading it computes nothing."""
        return self.base.spec

    @property
    def layout(self) -> tuple[tuple[int, ...], int]:
        """The strides and offset of the base, in items."""
        return self.base.layout


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides, in items, of a contiguous array."""
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))
