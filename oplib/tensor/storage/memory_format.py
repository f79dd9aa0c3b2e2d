"""Torch's layouts and memory formats. JAX chooses how arrays lie in memory, so they change nothing here."""

from __future__ import annotations

from typing import Any

from oplib.errors import ArgumentError, ArgumentTypeError, describe


class _Constant:
    """A value that is known by its name in oplib."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"oplib.{self._name}"

    def __reduce__(self) -> str:
        return self._name  # a copy is the object itself


class MemoryLayout(_Constant):
    """The kind of memory of a tensor. There is one value, ``oplib.strided``: there are no sparse tensors."""


class MemoryFormat(_Constant):
    """An order of the dimensions in memory: ``oplib.contiguous_format``, ``oplib.channels_last`` and others.

    Functions take one where torch's do. The values of the result, and its strides, are the same for each of
    them: XLA chooses the order in memory for each compiled program.
    """

    def __init__(self, name: str, order: tuple[int, ...] = ()) -> None:
        super().__init__(name)
        self.order = order  # the dims from the slowest to the fastest, where the format fixes them


strided = MemoryLayout("strided")
contiguous_format = MemoryFormat("contiguous_format")
preserve_format = MemoryFormat("preserve_format")
channels_last = MemoryFormat("channels_last", (0, 2, 3, 1))
channels_last_3d = MemoryFormat("channels_last_3d", (0, 2, 3, 4, 1))


def check_format(op: str, memory_format: Any, rank: int) -> None:
    """Checks a memory format for a tensor with this number of dimensions.

    Raises:
        ArgumentTypeError: it is another object.
        ArgumentError: the format needs another number of dimensions.
    """
    if memory_format is None:
        return
    require_format(op, memory_format)
    needed = len(memory_format.order)
    if needed and needed != rank:
        raise ArgumentError(
            f"{op}: required rank {needed} tensor to use {memory_format._name} format. Got {rank} "
            "dimensions. Use oplib.contiguous_format."
        )


def require_format(op: str, memory_format: object) -> None:
    """Raises ArgumentTypeError if an argument is no memory format."""
    if not isinstance(memory_format, MemoryFormat):
        raise ArgumentTypeError(
            f"{op}: argument 'memory_format' is one of oplib's. Got {describe(memory_format)}. Give "
            "oplib.contiguous_format or oplib.preserve_format."
        )
