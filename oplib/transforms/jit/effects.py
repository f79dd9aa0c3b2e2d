"""Effects: what a call of a compiled function does beside computing, as records without arrays.

A record names operands by their number, arrays by their number among the outputs of the program, and new
Tensors by their number among those that the call makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Operand:
    """A Tensor that existed before the call."""

    number: int


@dataclass(frozen=True, slots=True)
class New:
    """A Tensor that the call makes."""

    number: int


Source = Operand | New
"""The Tensor that stands somewhere after the call."""


@dataclass(frozen=True, slots=True)
class NewTensor:
    """How one Tensor is made from the outputs.

    Attributes:
        requires_grad: whether it does.
        slot: which output of the node of the call it is; None without history.
        is_inference: whether it was made in inference mode.
        storage: number of the new storage that it shows; None if it shows the storage of ``base``.
        base: the operand whose storage it shows.
        root: the Tensor of which it is a view, made before; None for a Tensor that is no view.
        chain: the frames from the base to the view; None where it shows the whole storage.
        starts: of the chain.
        creation: how the view was made.
    """

    requires_grad: bool
    slot: int | None
    is_inference: bool = False
    storage: int | None = None
    base: int | None = None
    root: Source | None = None
    chain: Any = None
    starts: Any = ()
    creation: int = 0


@dataclass(frozen=True, slots=True)
class NewEntry:
    """The entry of a container under a key after the call.

    Attributes:
        container: its number.
        key: the key; an operand for a Tensor.
        leaves: as in :attr:`Effects.results`.
        spec: the structure of the leaves.
    """

    container: int
    key: Any
    leaves: list[Any]
    spec: Any


@dataclass(slots=True)
class Effects:
    """The actions of one program beside computing.

    Attributes:
        writes: for each written storage the operand that holds it, the output (None where only the version
            counts), and how often it was written.
        alias_writes: for ``tensor.data``, the operand, the number of the alias among those of the operand,
            and how often it was written through it.
        new_storages: for each new storage its output, its version, and whether it is of inference mode.
        new_tensors: the Tensors that a call makes.
        grads: for operands whose ``grad`` has another value: the Tensor, or None.
        data: for operands whose ``data`` was assigned: the Tensor whose memory they share, and how often they
            were written after that.
        flags: for operands whose ``requires_grad`` has changed: the value.
        histories: for operands that were written with a history: the output of the node.
        entries: what containers hold after the call that they did not hold before.
        generators: for each Generator that was drawn from how often, or the state it was set to.
        results: the leaves of the result: a Tensor, the number of an array in a tuple, or a constant in a
            list.
        spec: the structure of the result.
    """

    writes: list[tuple[int, int | None, int]] = field(default_factory=list)
    alias_writes: list[tuple[int, int, int]] = field(default_factory=list)
    new_storages: list[tuple[int, int, bool]] = field(default_factory=list)
    new_tensors: list[NewTensor] = field(default_factory=list)
    grads: list[tuple[int, Source | None]] = field(default_factory=list)
    data: list[tuple[int, Source, int]] = field(default_factory=list)
    flags: list[tuple[int, bool]] = field(default_factory=list)
    histories: list[tuple[int, int]] = field(default_factory=list)
    entries: list[NewEntry] = field(default_factory=list)
    generators: list[tuple[int, int | tuple[int, Any, int]]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    spec: Any = None

    def find_named(self) -> set[int]:
        """Returns the operands that a call writes, returns, or changes in another way."""
        named = {change[0] for change in (*self.writes, *self.alias_writes, *self.grads, *self.data)}
        named |= {change[0] for change in (*self.flags, *self.histories)} | self.find_shown()
        for tensor in self.new_tensors:
            if tensor.base is not None:
                named.add(tensor.base)
            if isinstance(tensor.root, Operand):
                named.add(tensor.root.number)
        return named

    def find_shown(self) -> set[int]:
        """Returns the operands that a call returns, or puts somewhere."""
        shown = [*self.results, *[change[1] for change in (*self.grads, *self.data)]]
        shown += [source for entry in self.entries for source in (entry.key, *entry.leaves)]
        return {source.number for source in shown if isinstance(source, Operand)}
