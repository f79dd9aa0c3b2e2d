"""Storage: the one place where a Tensor's current array and its version stand."""

from __future__ import annotations

from typing import Any, ClassVar


class Storage:
    """The mutable cell behind a Tensor, shared by what ``detach()`` returns.

    Reading ``storage.array`` is the seam of execution: everything that wants the numbers of a Tensor goes
    through this one attribute, so that a subclass can compute it when it is asked for: a view does, over its
    base (``tensor/views``), and code that has been recorded but not run may one day. What wants no more than
    shape and dtype asks ``spec``, which computes nothing. Who compares storages to find out whether two
    tensors share memory compares their ``owner``.

    Attributes:
        array: the current ``jax.Array`` (or tracer); replaced, never written into.
        version: how often it has been written in place.
        is_inference: it was made in inference mode, and counts no versions.
    """

    __slots__ = ("array", "version")

    is_inference: ClassVar[bool] = False

    array: Any
    version: int

    def __init__(self, array: Any) -> None:
        self.array = array
        self.version = 0

    def write(self, array: Any) -> None:
        """Replaces the array and counts the write."""
        self.array = array
        self.version += 1

    def replace(self, array: Any) -> None:
        """Replaces the array without counting: for writes that are not to invalidate what was saved."""
        self.array = array

    @property
    def owner(self) -> Storage:
        """The storage in which the numbers really stand: of a view, that at the end of its bases."""
        return self

    @property
    def spec(self) -> Any:
        """Something with the shape, dtype, ndim and size of the array, which it costs nothing to ask for."""
        return self.array

    @property
    def layout(self) -> tuple[tuple[int, ...], int]:
        """Strides and offset, in items, that torch would have: JAX does not tell, and needs none."""
        strides: list[int] = []
        step = 1
        for length in reversed(self.array.shape):
            strides.append(step)
            step *= max(length, 1)
        return tuple(reversed(strides)), 0
