"""Write-back: what a call of a program does to Tensors once the program has run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.array_functions.array_function import make_gather
from oplib.autograd.nodes.node import TapeNode
from oplib.autograd.recording.rebase import note_write, rebase_history
from oplib.pytree import tree_unflatten
from oplib.tensor import Storage, Tensor
from oplib.tensor.inference import InferenceStorage, InferenceTensor
from oplib.tensor.storage.fresh import FreshStorage, peek, poke
from oplib.tensor.views import AliasStorage, note_view
from oplib.tensor.views.view_storage import make_view_storage
from oplib.transforms.captures.entries import put_entry

from .effects import Effects, New, NewTensor, Operand, Source
from .snapshot import list_aliases

_new: Any = object.__new__


class WriteBack:
    """Does the effects of a program. The caller holds the lock of buffers.

    Args:
        effects: the effects.
        at: the place among the operands of the program of each operand that the effects name.
        fresh: the outputs that stand in one storage after the call, and nowhere else.
    """

    def __init__(self, effects: Effects, at: dict[int, int], fresh: frozenset[int]) -> None:
        self._effects = effects
        self._at = at
        self._fresh = _sort_writes([one for one in effects.writes if one[1] in fresh], at)
        self._stored = _sort_writes([one for one in effects.writes if one[1] not in {*fresh, None}], at)
        self._counted = [(at[operand], count) for operand, output, count in effects.writes if output is None]
        self._take_written = make_gather([at[operand] for operand, _, _ in effects.writes])
        self._are_plain = all(
            one == NewTensor(requires_grad=False, slot=None, storage=number)
            for number, one in enumerate(effects.new_tensors)
        )
        self._take_new = make_gather([output for output, *_ in effects.new_storages])
        self._new = [
            (_choose_class(is_inference=is_inference, is_fresh=output in fresh), version)
            for output, version, is_inference in effects.new_storages
        ]
        made = [(at[operand], one.number) for operand, one in effects.grads if isinstance(one, New)]
        self._take_leaves = make_gather([place for place, _ in made])
        self._take_grads = make_gather([number for _, number in made])
        self._other_grads = [(at[operand], one) for operand, one in effects.grads if not isinstance(one, New)]

    def write(self, tensors: Sequence[Tensor], owners: Sequence[Storage], outputs: Sequence[Any]) -> None:
        """Puts new arrays into written storages, and counts the writes.

        An interrupt comes after a call only. So it finds both done for a storage, or nothing.
        """
        storages, arrays, counts = self._fresh
        for storage, array, count in zip(storages(owners), arrays(outputs), counts, strict=True):
            storage.version += count
            poke(storage, array)
            if storage.__class__ is Storage:  # one that a trace in another thread observes stays observed
                storage.__class__ = FreshStorage
        storages, arrays, counts = self._stored
        for storage, array, count in zip(storages(owners), arrays(outputs), counts, strict=True):
            storage.version += count
            storage.array = array
        for operand, count in self._counted:
            owners[operand].version += count
        for tensor in self._take_written(tensors):
            if tensor._views is not None:
                note_write(tensor)
        for operand, place, count in self._effects.alias_writes:
            list_aliases(tensors[self._at[operand]]._storage)[place].version += count

    def refill(self, owners: Sequence[Storage], outputs: Sequence[Any]) -> None:
        """Completes the writes of a call that was interrupted: the old arrays are gone."""
        for storages, arrays, counts in (self._fresh, self._stored):
            for storage, array, count in zip(storages(owners), arrays(outputs), counts, strict=True):
                if peek(storage) is not array:
                    storage.version += count
                    storage.array = array

    def make(self, tensors: Sequence[Tensor], outputs: Sequence[Any], node: TapeNode | None) -> list[Tensor]:
        """Makes the new Tensors."""
        storages: list[Storage] = []
        for array, (kind, version) in zip(self._take_new(outputs), self._new, strict=True):
            storage = _new(kind)
            poke(storage, array)
            storage.version = version
            storages.append(storage)
        made: list[Tensor] = []
        if not self._are_plain:
            for one in self._effects.new_tensors:
                made.append(self._make_tensor(one, tensors, storages, node))
                if one.root is not None:
                    root = made[-1]._root = self._find(one.root, tensors, made)
                    note_view(root, made[-1])
            return made
        for storage in storages:
            tensor = _new(Tensor)
            tensor._storage = storage
            made.append(tensor)
        return made

    def _make_tensor(
        self, one: NewTensor, tensors: Sequence[Tensor], storages: list[Storage], node: TapeNode | None
    ) -> Tensor:
        tensor = _new(InferenceTensor if one.is_inference else Tensor)
        if one.storage is not None:
            tensor._storage = storages[one.storage]
        else:
            assert one.base is not None
            tensor._storage = tensors[self._at[one.base]]._storage.owner
        if one.chain is not None:
            tensor._storage = make_view_storage(tensor._storage, one.chain, one.starts)
        if one.requires_grad:
            tensor._requires_grad = True
        if one.slot is not None:
            tensor._grad_fn, tensor._output_nr = node, one.slot
        return tensor

    def _find(self, source: Source, tensors: Sequence[Tensor], made: Sequence[Tensor]) -> Tensor:
        return tensors[self._at[source.number]] if isinstance(source, Operand) else made[source.number]

    def apply(self, tensors: Sequence[Tensor], made: Sequence[Tensor], node: Any) -> None:
        """Gives operands their new gradients, histories and data."""
        effects, at = self._effects, self._at

        for operand, slot in effects.histories:
            rebase_history(tensors[at[operand]], (node, slot))
        for operand, value in effects.flags:
            tensors[at[operand]]._requires_grad = value
        for operand, source, count in effects.data:
            tensor = tensors[at[operand]]
            tensor._storage = AliasStorage(
                self._find(source, tensors, made)._storage, tensor._storage.version + count
            )
        for place, source in self._other_grads:
            tensors[place]._grad = None if source is None else self._find(source, tensors, made)
        for leaf, grad in zip(self._take_leaves(tensors), self._take_grads(made), strict=True):
            leaf._grad = grad

    def put_entries(
        self, containers: Sequence[Any], tensors: Sequence[Tensor], made: Sequence[Tensor], outputs: Any
    ) -> None:
        """Lets containers hold what they hold after the call."""
        for container, one in zip(containers, self._effects.places, strict=True):
            key = tensors[self._at[one.key.number]] if isinstance(one.key, Operand) else one.key
            leaves = [self._give(leaf, tensors, made, outputs) for leaf in one.leaves]
            put_entry(container, key, tree_unflatten(leaves, one.spec))

    def give(self, tensors: Sequence[Tensor], made: Sequence[Tensor], outputs: Sequence[Any]) -> Any:
        """Returns the result."""
        leaves = [self._give(one, tensors, made, outputs) for one in self._effects.results]
        return tree_unflatten(leaves, self._effects.spec)

    def _give(
        self, one: Any, tensors: Sequence[Tensor], made: Sequence[Tensor], outputs: Sequence[Any]
    ) -> Any:
        """Returns a leaf of the result: a Tensor, an output, or a constant."""
        if isinstance(one, Operand):
            return tensors[self._at[one.number]]
        if isinstance(one, New):
            return made[one.number]
        return outputs[one[0]] if isinstance(one, tuple) else one[0]


def _choose_class(*, is_inference: bool, is_fresh: bool) -> type[Storage]:
    """Returns the class of a new storage. One of inference mode is never fresh."""
    if is_inference:
        return InferenceStorage
    return FreshStorage if is_fresh else Storage


def _sort_writes(
    writes: Sequence[tuple[int, Any, int]], at: dict[int, int]
) -> tuple[Callable[[Any], Any], Callable[[Any], Any], list[int]]:
    """Functions that take the written storages and their arrays, and the counts of writes."""
    places = [at[operand] for operand, _, _ in writes]
    return (
        make_gather(places),
        make_gather([output for _, output, _ in writes]),
        [count for *_, count in writes],
    )
