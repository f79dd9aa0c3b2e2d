"""Effects: what a call of a compiled function does beside computing, as records without arrays.

A record names operands by their number, arrays by their number among the outputs of the program, and new
Tensors by their number among those that the call makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oplib.frozen import frozen
from oplib.tensor import Tensor


@frozen
class Operand:
    """A Tensor that existed before the call."""

    number: int


@frozen
class New:
    """A Tensor that the call makes."""

    number: int


Source = Operand | New
"""The Tensor that stands somewhere after the call."""


@frozen
class PackedGrad:
    """The place of a small gradient in an output that holds several of them.

    Attributes:
        output: the output.
        place: where the gradient begins there, its shape, and how often it was written.
    """

    output: int
    place: tuple[int, Any, int]


@frozen
class Held:
    """A storage that existed before the call.

    Attributes:
        operand: the number of an operand.
        way: the attributes that lead from the storage of the operand to it, such as ``base.base``; empty for
            the storage of the operand itself.
    """

    operand: int
    way: str = ""


StorageSource = Held | int
"""A storage: one that existed before, or the number of one that the call makes."""


@frozen
class NewStorage:
    """How one storage is made. It holds an output, or shows another storage, as a view or as ``data`` does.

    Attributes:
        output: the output that it holds; None if it shows another storage.
        version: how often it was written.
        is_inference: whether it was made in inference mode.
        base: the storage that it shows.
        chain: the frames from there to the view; None for ``data``.
        starts: of the chain.
        counter: the storage that counts the writes through ``data``, if it is not an own one.
        former: the storage that a Tensor had before its ``data`` was assigned.
        view: the storage of the view that it was before.
    """

    output: int | None
    version: int = 0
    is_inference: bool = False
    base: StorageSource | None = None
    chain: Any = None
    starts: Any = ()
    counter: StorageSource | None = None
    former: StorageSource | None = None
    view: StorageSource | None = None

    def list_held(self) -> list[int]:
        """Returns the operands that it refers to."""
        shown = (self.base, self.counter, self.former, self.view)
        return [source.operand for source in shown if isinstance(source, Held)]


@frozen
class NewTensor:
    """How one Tensor is made.

    Attributes:
        requires_grad: whether it does.
        slot: which output of the node of the call it is; None without history.
        storage: its storage.
        kind: its class, which tells inference tensors and views whose history may not be read.
        root: the Tensor of which it is a view, made before; None for a Tensor that is no view.
        creation: how the view was made.
        read_only: the op whose result cannot be written.
        retains_grad: whether it keeps its gradient, though it has a history.
    """

    requires_grad: bool
    slot: int | None
    storage: StorageSource
    kind: type[Tensor] = Tensor
    root: Source | None = None
    creation: int = 0
    read_only: str | None = None
    retains_grad: bool = False


@frozen
class NewEntry:
    """The entry of a container under a key after the call.

    Attributes:
        container: its number; of an attribute of a new Tensor, that of the Tensor.
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
        new_storages: the storages that a call makes.
        new_tensors: the Tensors that a call makes.
        new_grads: for new Tensors that have a gradient: the Tensor.
        attributes: those that users have set on new Tensors.
        grads: for operands whose ``grad`` has another value: the Tensor, its place in an output, or None.
        storages: for operands whose ``data`` was assigned: their storage.
        flags: for operands whose ``requires_grad`` has changed, or that have lost their history: the value.
        histories: for operands that were written with a history: the output of the node.
        entries: what containers hold after the call that they did not hold before.
        generators: for each Generator that was drawn from how often, or the state it was set to.
        results: the leaves of the result: a Tensor, the number of an array in a tuple, or a constant in a
            list.
        spec: the structure of the result.
    """

    writes: list[tuple[int, int | None, int]] = field(default_factory=list)
    alias_writes: list[tuple[int, int, int]] = field(default_factory=list)
    new_storages: list[NewStorage] = field(default_factory=list)
    new_tensors: list[NewTensor] = field(default_factory=list)
    new_grads: list[tuple[int, Source]] = field(default_factory=list)
    attributes: list[NewEntry] = field(default_factory=list)
    grads: list[tuple[int, Source | PackedGrad | None]] = field(default_factory=list)
    storages: list[tuple[int, StorageSource]] = field(default_factory=list)
    flags: list[tuple[int, bool]] = field(default_factory=list)
    histories: list[tuple[int, int]] = field(default_factory=list)
    entries: list[NewEntry] = field(default_factory=list)
    generators: list[tuple[int, int | tuple[int, Any, int]]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    spec: Any = None

    def list_leaves(self) -> list[Any]:
        """Returns the leaves of the result, and of what containers and new Tensors hold."""
        held = (*self.entries, *self.attributes)
        return [*self.results, *[leaf for entry in held for leaf in entry.leaves]]

    def find_named(self) -> set[int]:
        """Returns the operands that a call writes, returns, or changes in another way."""
        named = {change[0] for change in (*self.writes, *self.alias_writes, *self.grads, *self.storages)}
        named |= {change[0] for change in (*self.flags, *self.histories)} | self.find_shown()
        return named | {tensor.root.number for tensor in self.new_tensors if isinstance(tensor.root, Operand)}

    def find_shown(self) -> set[int]:
        """Returns the operands that a call returns or puts somewhere, and those whose memory others show."""
        shown = [*self.list_leaves(), *[change[1] for change in (*self.grads, *self.new_grads)]]
        shown += [entry.key for entry in self.entries]
        operands = {source.number for source in shown if isinstance(source, Operand)}
        storages = [
            *[tensor.storage for tensor in self.new_tensors],
            *[change[1] for change in self.storages],
        ]
        operands |= {storage.operand for storage in storages if isinstance(storage, Held)}
        return operands.union(*[storage.list_held() for storage in self.new_storages])
