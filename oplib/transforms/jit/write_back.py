"""Write-back: what a call of a program does to Tensors once the program has run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from oplib.autograd.array_functions.array_function import make_gather
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.node import Edge, TapeNode
from oplib.autograd.recording.rebase import Overwritten, note_write, rebase_history
from oplib.autograd.recording.view import StaleView, share_requires_grad
from oplib.generated_code import refer, render_tuple
from oplib.tensor import Storage, Tensor
from oplib.tensor.inference import InferenceStorage
from oplib.tensor.storage.fresh import FreshStorage, get_array, make_fresh, make_ordinary, set_array
from oplib.tensor.views import AliasStorage, note_view
from oplib.tensor.views.lineage import end_history
from oplib.tensor.views.view_storage import make_view_storage
from oplib.transforms.tracing.entries import put_entry
from oplib.transforms.tracing.observed_tensor import list_aliases, list_behind

from .effects import Effects, New, NewTensor, Operand, PackedGrad, Source

_new: Any = object.__new__
_NEW = """
values = [*tensors, *returned]
for _, output, version, kind, slot in {rows}:
    storage = new(kind)
    set_array(storage, returned[output])
    storage.version = version
    tensor = new(Tensor)
    tensor._storage = storage
    values.append(tensor)
"""
_RECORDED = "    tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, node, slot"


class WriteBack:
    """Does the effects of a program. The caller holds the lock of buffers.

    Args:
        effects: the effects.
        at: for each operand that the effects name, its index among the operands of the program.
        fresh: the outputs that stand in one storage after the call, and nowhere else.
        collecting: the Tensors that collect a gradient since the call.
        counts: how many operands and how many outputs there are.

    Attributes:
        collecting: where these stand among the values of a call.
        fills: whether a call gives Tensors gradients, or puts something into containers.
        writes: whether a call writes operands.
    """

    def __init__(
        self,
        effects: Effects,
        at: dict[int, int],
        fresh: frozenset[int],
        collecting: Sequence[Source],
        counts: tuple[int, int],
    ) -> None:
        self._effects, self._at, self._counts = effects, at, counts
        self._constants: list[Any] = []
        self.writes = bool(effects.writes or effects.alias_writes)
        written: list[Any] = [write for write in effects.writes if write[1] is not None]
        self._take_storages = make_gather([at[operand] for operand, *_ in written])
        self._take_arrays = make_gather([output for _, output, _ in written])
        self._written = [(count, output in fresh) for _, output, count in written]
        self._counted = [(at[operand], count) for operand, output, count in effects.writes if output is None]
        # a Tensor whose `data` was assigned counts its writes in its first alias
        counted = [operand for operand, _, count in effects.writes if count]
        counted += [operand for operand, alias, _ in effects.alias_writes if not alias]
        self._take_written = make_gather([at[operand] for operand in counted])
        self._showing = [(n, new) for n, new in enumerate(effects.new_storages) if new.base is not None]
        self._shown: list[Any] = [new.storage for new in effects.new_tensors]
        self._kinds = list(map(_sort_attributes, effects.new_tensors))
        self._changes_histories = bool(effects.histories or effects.flags)
        self._new = [
            (number, new.output, new.version, _find_kind(new, fresh))
            for number, new in enumerate(effects.new_storages)
            if new.output is not None
        ]
        self._packed = self._find_packed()
        graded = [
            (Operand(operand), to or [None]) for operand, to in effects.grads if type(to) is not PackedGrad
        ]
        graded += [(New(number), source) for number, source in effects.new_grads]
        self._take_graded = self._make_take([tensor for tensor, _ in graded])
        self._take_grads = self._make_take([source for _, source in graded])
        self.collecting = list(map(self._place, collecting))
        self._attributes = [
            (self._place(New(one.container)), one.key, self._make_take(one.leaves), one.spec)
            for one in effects.attributes
        ]
        keys = [one.key if isinstance(one.key, Operand) else [one.key] for one in effects.entries]
        self._entries = [
            (self._place(key), self._make_take(one.leaves), one.spec)
            for key, one in zip(keys, effects.entries, strict=True)
        ]
        self._results = list(map(self._place, effects.results))
        self.fills = bool(graded or self._packed or self._attributes or self._entries)

    def _find_packed(self) -> list[tuple[int, Any, Any]]:
        """Returns each output that holds gradients, with what picks their operands, and their places."""
        packed: Any = defaultdict(dict)
        for operand, to in self._effects.grads:
            if isinstance(to, PackedGrad):
                packed[self._counts[0] + to.output][self._at[operand]] = to.place
        return [(output, make_gather([*places]), places.values()) for output, places in packed.items()]

    def _place(self, source: Any) -> int:
        """Returns where something stands among the values of a call.

        These are the operands, the outputs, the new Tensors and the constants, in this order.
        """
        operands, outputs = self._counts
        if isinstance(source, Operand):
            return self._at[source.number]
        if isinstance(source, tuple):
            return operands + source[0]
        if isinstance(source, New):
            return operands + outputs + source.number
        self._constants += source
        return operands + outputs + len(self._effects.new_tensors) + len(self._constants) - 1

    def _make_take(self, sources: Sequence[Any]) -> Callable[[Any], Any]:
        return make_gather(list(map(self._place, sources)))

    def write(self, owners: Sequence[Storage], returned: Sequence[Any], *, again: bool = False) -> None:
        """Puts new arrays into the written storages, and counts the writes.

        An interrupt comes after a call only. So it finds both done for a storage, or nothing.

        Args:
            owners: the storages of the operands.
            returned: the outputs.
            again: complete the writes of a call that was interrupted: the old arrays are gone.
        """
        pairs = zip(self._take_storages(owners), self._take_arrays(returned), self._written)  # noqa: B905  costs time
        for storage, array, (count, stays_fresh) in pairs:
            if again and get_array(storage) is array:
                continue
            if not stays_fresh:
                make_ordinary(storage)  # nothing below is a call that an interrupt may come after
                storage.version += count
                storage.array = array
            elif storage.__class__ is FreshStorage:
                storage.version += count
                storage.held = array
            else:
                make_fresh(storage, array, count)
        for operand, count in () if again else self._counted:
            owners[operand].version += count

    def note(self, tensors: Sequence[Tensor]) -> None:
        """Notes the writes at views, and counts those through ``tensor.data``."""
        for tensor in self._take_written(tensors):
            # a view that is restricted itself stays readable for the next call
            if tensor._restricted_views is not None or (tensor._root is not None and not tensor._creation):
                note_write(tensor)
        for operand, index, count in self._effects.alias_writes:
            list_aliases(tensors[self._at[operand]]._storage)[index].version += count

    def list_lines(self, objects: dict[str, Any]) -> tuple[list[str], str]:
        """Returns the lines that make the new Tensors of a call, and the expression of its result.

        The objects to which these refer are added to the others.
        """
        effects = self._effects
        slots = [new.slot for new in effects.new_tensors]
        plain = [
            NewTensor(requires_grad=slot is not None, slot=slot, storage=number)
            for number, slot in enumerate(slots)
        ]
        if (
            self._showing
            or effects.storages
            or effects.new_tensors != plain
            or 0 < slots.count(None) < len(slots)
        ):
            lines = ["values = write_back.make(tensors, returned, node)"]
        else:
            lines = ["write_back.change_histories(tensors, node)"] if self._changes_histories else []
            rows = [(*made, slot) for made, slot in zip(self._new, slots, strict=True)]
            new = _NEW + (_RECORDED if rows and None not in slots else "")
            lines += new.format(rows=refer(objects, rows, "rows")).splitlines()
            lines += [f"values += {refer(objects, self._constants, 'constants')}"] if self._constants else []
        results = [f"values[{index}]" for index in self._results]
        if effects.spec.is_leaf():
            return lines, results[0]
        return lines, f"{refer(objects, effects.spec.unflatten, 'unflatten')}({render_tuple(results)})"

    def make(self, tensors: Sequence[Tensor], returned: Sequence[Any], node: TapeNode | None) -> list[Any]:
        """Gives operands their histories, makes the new Tensors, and returns the values of the call."""
        storages: list[Any] = [None] * len(self._effects.new_storages)
        values: list[Any] = [*tensors, *returned]
        for number, output, version, kind in self._new:
            storage = storages[number] = _new(kind)
            set_array(storage, returned[output])
            storage.version = version
        self._show(tensors, storages)
        shown = [  # before operands show others
            storages[source] if source.__class__ is int else self._find(source, tensors, storages)
            for source in self._shown
        ]
        self._turn(tensors, storages)
        self.change_histories(tensors, node)
        for storage, (kind, slot, root, others) in zip(shown, self._kinds):  # noqa: B905  the keyword costs time
            tensor = _new(kind)
            values.append(tensor)
            tensor._storage = storage
            if slot is not None:
                tensor._requires_grad, tensor._grad_fn, tensor._output_nr = True, node, slot
            if others:
                tensor.__dict__.update(others)
            if root is not None:
                _turn_into_view(tensor, values[self._place(root)])
        values += self._constants
        return values

    def _show(self, tensors: Sequence[Tensor], storages: list[Any]) -> None:
        """Makes the storages that show others."""
        for number, described in self._showing:
            base, counter, former, view = [
                self._find(source, tensors, storages)
                for source in (described.base, described.counter, described.former, described.view)
            ]
            if described.chain is not None:
                storages[number] = make_view_storage(base, described.chain, described.starts)
                continue
            alias = storages[number] = AliasStorage(base, described.version)
            alias.counter, alias.view = counter or alias.counter, view
            alias.former = None if former is None else ref(former)

    def _find(self, source: Any, tensors: Sequence[Tensor], storages: Sequence[Any]) -> Any:
        """Returns a storage that is there before the call, or that the call makes."""
        if source.__class__ is int:
            return storages[source]
        if source is None:
            return None
        storage: Any = tensors[self._at[source.operand]]._storage
        for name in source.way.split(".") if source.way else ():
            storage = dict(list_behind(storage)).get(name)
        return storage

    def _turn(self, tensors: Sequence[Tensor], storages: Sequence[Any]) -> None:
        """Gives operands the storages that they have after the call."""
        changes = self._effects.storages
        shown = [self._find(source, tensors, storages) for _, source in changes]
        changed = [tensors[self._at[operand]] for operand, _ in changes]
        for tensor, storage in zip(changed, shown, strict=True):
            tensor._storage = storage

    def change_histories(self, tensors: Sequence[Tensor], node: TapeNode | None) -> None:
        """Gives operands their histories, before new views of them are made."""
        effects, at = self._effects, self._at
        for operand, slot in effects.histories:
            rebase_history(tensors[at[operand]], None if node is None else (node, slot))
        for operand, value in effects.flags:
            tensor = tensors[at[operand]]
            if tensor._grad_fn is not None:
                end_history(tensor)
            if tensor._requires_grad is not value:
                tensor._requires_grad = value
                share_requires_grad(tensor, value)

    def fill(self, containers: Sequence[Any], values: Sequence[Any]) -> None:
        """Gives Tensors their gradients, and fills new Tensors and containers."""
        for tensor, grad in zip(self._take_graded(values), self._take_grads(values)):  # noqa: B905  costs time
            tensor._grad = grad
        for output, take, places in self._packed:
            array = values[output]
            for tensor, place in zip(take(values), places):  # noqa: B905  costs time
                tensor._grad = array, place  # of which Tensor._gradient makes a Tensor
        for tensor, key, take, spec in self._attributes:
            values[tensor].__dict__[key] = spec.unflatten(take(values))
        for container, (key, take, spec) in zip(containers, self._entries, strict=False):
            put_entry(container, values[key], spec.unflatten(take(values)))

    def list_edges(self, values: Sequence[Any]) -> list[Edge | None]:
        """Returns where the gradients of the Tensors go that collect one since the call."""
        return [_find_edge(values[index]) for index in self.collecting]


def _find_edge(tensor: Tensor) -> Edge | None:
    if not tensor._retains_grad:
        return gradient_edge(tensor)
    call: Any = tensor._grad_fn
    end: Any = Overwritten.make(tensor)  # the backward of the call gives the gradient that it retains
    end._retained, end.has_hooks = {0: ref(tensor)}, True
    call.ends = {**call.ends, tensor._output_nr: end}
    return end, 0


def _turn_into_view(tensor: Tensor, root: Tensor) -> None:
    tensor._root = root
    if tensor.__class__ is not StaleView:  # such a view is registered when it has looked its history up
        note_view(root, tensor)


def _sort_attributes(new: NewTensor) -> tuple[type[Tensor], int | None, Any, dict[str, Any]]:
    """Returns the class of a new Tensor, its slot, its root, and the attributes that few Tensors have."""
    others = {
        "_creation": new.creation,
        "_read_only": new.read_only,
        "_retains_grad": new.retains_grad,
        "_requires_grad": new.requires_grad and new.slot is None,
    }
    return new.kind, new.slot, new.root, {name: value for name, value in others.items() if value}


def _find_kind(new: Any, fresh: frozenset[int]) -> type[Storage]:
    """The class of the storage that holds an output."""
    if new.is_inference:
        return InferenceStorage
    return FreshStorage if new.output in fresh else Storage
