"""Storage: the one place where a Tensor's current array and its version stand."""

from __future__ import annotations

from typing import Any, ClassVar


class Storage:
    """The mutable cell behind a Tensor, shared by what ``detach()`` returns.

    Reading ``storage.array`` is the seam of execution: everything that wants the numbers of a Tensor goes
    through this one attribute, so that later a subclass can compute it when it is asked for (a view over its
    base, or code that has been recorded but not run).

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
