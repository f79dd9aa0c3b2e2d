"""Write-back: what a call of a program does to Tensors once the program has run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.array_functions.array_function import make_gather
from oplib.autograd.nodes.node import TapeNode
from oplib.autograd.recording.rebase import note_write, rebase_history
from oplib.pytree import tree_unflatten
from oplib.tensor import Storage, Tensor
from oplib.tensor.inference import InferenceStorage, InferenceTensor
from oplib.tensor.storage.fresh import ProgramOutputs, attach_output, make_fresh, peek, poke
from oplib.tensor.views import AliasStorage, note_view
from oplib.tensor.views.view_storage import make_view_storage
from oplib.transforms.tracing.entries import put_entry
from oplib.transforms.tracing.observed_tensor import list_aliases

from .effects import Effects, New, NewTensor, Operand

_new: Any = object.__new__


class WriteBack:
    """Does the effects of a program. The caller holds the lock of buffers.

    Args:
        effects: the effects.
        at: for each operand that the effects name, its index among the operands of the program.
        fresh: the outputs that stand in one storage after the call, and nowhere else.
    """

    def __init__(self, effects: Effects, at: dict[int, int], fresh: frozenset[int]) -> None:
        self._effects = effects
        self._at = at
        self.written = [at[operand] for operand, output, _ in effects.writes if output in fresh]
        self._stored = _sort_writes([write for write in effects.writes if write[1] not in {*fresh, None}], at)
        self._counted = [(at[operand], count) for operand, output, count in effects.writes if output is None]
        self._take_written = make_gather([at[operand] for operand, _, _ in effects.writes])
        self._take_fresh = make_gather(self.written)
        self._are_plain = all(
            tensor == NewTensor(requires_grad=False, slot=None, storage=number)
            for number, tensor in enumerate(effects.new_tensors)
        )
        self._sort_gradients(fresh)
        self._sort_new()
        writes = [(output, count) for _, output, count in effects.writes if output in fresh]
        lasting = [(effects.new_storages[source.number][0], 0) for _, source in self._lasting]
        self._take_outputs = make_gather([output for output, _ in (*writes, *lasting)])
        self._counts = [count for _, count in (*writes, *lasting)]

    def _sort_gradients(self, fresh: frozenset[int]) -> None:
        """Tells gradients that stand at one leaf and nowhere else from others."""
        effects = self._effects
        made = [(self._at[operand], source) for operand, source in effects.grads]
        shown = [*effects.results, *[leaf for entry in effects.entries for leaf in entry.leaves]]
        holders = Counter(
            [source.number for source in (*shown, *[source for _, source in made]) if isinstance(source, New)]
        )
        self._lasting = [
            (index, source)
            for index, source in made
            if isinstance(source, New) and self._are_plain and holders[source.number] == 1
            if effects.new_storages[source.number][0] in fresh
        ]
        self._other_grads = [gradient for gradient in made if gradient not in self._lasting]
        self.leaves = [index for index, _ in self._lasting]
        self._take_leaves = make_gather(self.leaves)

    def _sort_new(self) -> None:
        """Says which storages each call makes, and which only a call that follows no other."""
        lasting = {source.number for _, source in self._lasting}
        kinds = [
            (number, output, version, InferenceStorage if is_inference else Storage)
            for number, (output, version, is_inference) in enumerate(self._effects.new_storages)
        ]
        self._new = [kind for kind in kinds if kind[0] not in lasting]
        self._lasting_versions = [kinds[source.number][2] for _, source in self._lasting]

    @property
    def can_follow(self) -> bool:
        """Whether a call may follow another: it writes into fresh storages, and into no others."""
        effects = self._effects
        others = (effects.alias_writes, effects.histories, effects.flags, effects.data)
        are_fresh = len(effects.writes) == len(self.written)
        return self._are_plain and bool(self.written) and are_fresh and not any(others)

    def attach(self, owners: Sequence[Storage], returned: Sequence[Any]) -> ProgramOutputs:
        """Makes the written storages fresh, and counts the writes.

        An interrupt comes after a call only. So it finds both done for a storage, or nothing.
        """
        outputs = ProgramOutputs(list(self._take_outputs(returned)), self._counts)
        for storage, slot in zip(self._take_fresh(owners), outputs.slots, strict=False):
            attach_output(storage, outputs, slot)
        return outputs

    def follow(self, outputs: ProgramOutputs, returned: Sequence[Any]) -> None:
        """Puts new arrays where the fresh storages of the call before find them."""
        arrays = list(self._take_outputs(returned))
        outputs.calls, outputs.arrays = outputs.calls + 1, arrays

    def write(self, owners: Sequence[Storage], returned: Sequence[Any]) -> None:
        """Puts new arrays into the other written storages, and counts the writes."""
        storages, arrays, counts = self._stored
        for storage, array, count in zip(storages(owners), arrays(returned), counts, strict=True):
            storage.version += count
            storage.array = array
        for operand, count in self._counted:
            owners[operand].version += count

    def note(self, tensors: Sequence[Tensor]) -> None:
        """Notes the writes at views, and counts those through ``tensor.data``."""
        for tensor in self._take_written(tensors):
            if tensor._views is not None:
                note_write(tensor)
        for operand, index, count in self._effects.alias_writes:
            list_aliases(tensors[self._at[operand]]._storage)[index].version += count

    def refill(self, owners: Sequence[Storage], returned: Sequence[Any]) -> None:
        """Completes the writes of a call that was interrupted: the old arrays are gone."""
        written = self._take_outputs(returned)
        outputs = ProgramOutputs(list(written), self._counts)
        for storage, slot, array in zip(self._take_fresh(owners), outputs.slots, written, strict=False):
            if peek(storage) is not array:
                attach_output(storage, outputs, slot)
        storages, arrays, counts = self._stored
        for storage, array, count in zip(storages(owners), arrays(returned), counts, strict=True):
            if peek(storage) is not array:
                storage.version += count
                storage.array = array

    def make(self, tensors: Sequence[Tensor], returned: Sequence[Any], node: TapeNode | None) -> list[Any]:
        """Makes the new Tensors, but for the gradients that :meth:`make_gradients` makes."""
        storages: list[Any] = [None] * len(self._effects.new_storages)
        for number, output, version, kind in self._new:
            storage = storages[number] = _new(kind)
            poke(storage, returned[output])
            storage.version = version
        made: list[Any] = []
        if not self._are_plain:
            for new in self._effects.new_tensors:
                made.append(self._make_tensor(new, tensors, storages, node))
                if new.root is not None:
                    root = made[-1]._root = self._give(new.root, tensors, made)
                    note_view(root, made[-1])
            return made
        made += storages
        for number, *_ in self._new:
            tensor = made[number] = _new(Tensor)
            tensor._storage = storages[number]
        return made

    def make_gradients(self, tensors: Sequence[Tensor], outputs: ProgramOutputs) -> None:
        """Gives leaves gradients that are fresh. Calls that follow put other arrays into these."""
        slots = outputs.slots[len(self.written) :]
        for leaf, slot, version in zip(
            self._take_leaves(tensors), slots, self._lasting_versions, strict=True
        ):
            grad = _new(Tensor)
            grad._storage = make_fresh(outputs, slot, version)
            leaf._grad = grad

    def _make_tensor(
        self, new: NewTensor, tensors: Sequence[Tensor], storages: list[Storage], node: TapeNode | None
    ) -> Tensor:
        tensor = _new(InferenceTensor if new.is_inference else Tensor)
        if new.storage is not None:
            tensor._storage = storages[new.storage]
        else:
            assert new.base is not None
            tensor._storage = tensors[self._at[new.base]]._storage.owner
        if new.chain is not None:
            tensor._storage = make_view_storage(tensor._storage, new.chain, new.starts)
        if new.creation:
            tensor._creation = new.creation
        if new.requires_grad:
            tensor._requires_grad = True
        if new.slot is not None:
            tensor._grad_fn, tensor._output_nr = node, new.slot
        return tensor

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
                self._give(source, tensors, made)._storage, tensor._storage.version + count
            )
        for index, source in self._other_grads:
            tensors[index]._grad = None if source is None else self._give(source, tensors, made)

    def put_entries(
        self, containers: Sequence[Any], tensors: Sequence[Tensor], made: Sequence[Tensor], outputs: Any
    ) -> None:
        """Lets containers hold what they hold after the call."""
        for container, entry in zip(containers, self._effects.entries, strict=True):
            key = tensors[self._at[entry.key.number]] if isinstance(entry.key, Operand) else entry.key
            leaves = [self._give(leaf, tensors, made, outputs) for leaf in entry.leaves]
            put_entry(container, key, tree_unflatten(leaves, entry.spec))

    def give(self, tensors: Sequence[Tensor], made: Sequence[Tensor], outputs: Sequence[Any]) -> Any:
        """Returns the result."""
        leaves = [self._give(result, tensors, made, outputs) for result in self._effects.results]
        return tree_unflatten(leaves, self._effects.spec)

    def _give(
        self, source: Any, tensors: Sequence[Tensor], made: Sequence[Tensor], outputs: Sequence[Any] = ()
    ) -> Any:
        """Returns a leaf of the result, or what stands somewhere: a Tensor, an output, or a constant."""
        if isinstance(source, Operand):
            return tensors[self._at[source.number]]
        if isinstance(source, New):
            return made[source.number]
        return outputs[source[0]] if isinstance(source, tuple) else source[0]


def _sort_writes(
    writes: Sequence[tuple[int, Any, int]], at: dict[int, int]
) -> tuple[Callable[[Any], Any], Callable[[Any], Any], list[int]]:
    """Functions that take the written storages and their arrays, and the counts of writes."""
    indices = [at[operand] for operand, _, _ in writes]
    return (
        make_gather(indices),
        make_gather([output for _, output, _ in writes]),
        [count for *_, count in writes],
    )
