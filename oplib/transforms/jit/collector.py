"""Reads off Tensors, containers and Generators what a function has done to them while it was traced."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Sequence
from typing import Any

import jax
from jax.core import Tracer

from oplib.errors import TracingError
from oplib.pytree import tree_flatten_dataclasses
from oplib.tensor import Generator, Storage, Tensor, box
from oplib.tensor.devices.layout import find_spread, is_alike
from oplib.tensor.inference import InferenceTensor
from oplib.tensor.storage.fresh import peek
from oplib.tensor.storage.overlay import Overlay
from oplib.tensor.views import AliasStorage, ViewStorage
from oplib.transforms.tracing.boundary import Boundary
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.entries import read_entries, restore_entry
from oplib.transforms.tracing.observed_tensor import StateSnapshot
from oplib.transforms.tracing.paths import SCALARS, CapturedPath, Walk, name_package

from .effects import Effects, New, NewEntry, NewTensor, Operand, Source

_OF_CODE = (types.CellType, types.FunctionType)


class Collector:
    """Collects the effects of one trace, and the arrays that its program has to return for them.

    Args:
        name: of the function, for errors.
        candidates: what the function could read.
        snapshot: what it was before.

    Attributes:
        effects: what a call does beside computing.
        outputs: the arrays that the program returns.
        layouts: for each of them its sharding over several devices; None where XLA chooses.
        live: the Tensors with a history that exist after the call.
        made: the Tensors that were made inside and are kept outside, each with its path if that is known.
    """

    def __init__(self, name: str, candidates: Candidates, snapshot: StateSnapshot) -> None:
        self.effects = Effects()
        self.outputs: list[Any] = []
        self.layouts: list[Any] = []
        self.live: list[Tensor] = []
        self.made: list[tuple[Tensor, str]] = []
        self._name = name
        self._candidates = candidates
        self._snapshot = snapshot
        self._tensors: dict[int, New] = {}
        self._storages: dict[Storage, int] = {}
        self._layouts = {storage: find_spread(peek(storage)) for storage in candidates.storages}
        self._placed: list[tuple[Any, Any, dict[Any, Any]]] = []
        self._on_the_way = candidates.find_ancestors()

    def collect(self, result: Any, overlay: Overlay, inputs: tuple[Any, ...], versions: list[int]) -> None:
        """Collects everything.

        Args:
            result: what the function returned.
            overlay: of the trace.
            inputs: of the jaxpr.
            versions: of the storages, before the trace.
        """
        effects, candidates = self.effects, self._candidates
        self._collect_writes(overlay, inputs, versions)
        self._lay_out_grads()
        leaves, effects.spec = tree_flatten_dataclasses(result, _is_constant)
        self._collect_owners(leaves)
        self._collect_containers()
        effects.results = [self._collect_result(leaf) for leaf in leaves]
        for number, (tensor, _, before) in enumerate(self._snapshot.tensors):
            self._collect_tensor(number, tensor, before, is_grad_set=id(tensor) in overlay.set_grads)
        for alias, version in self._snapshot.aliases.values():
            if alias.version != version:
                operand, index = self._snapshot.find_alias(alias)
                effects.alias_writes.append((operand, index, alias.version - version))
        for number, path in enumerate(candidates.generators):
            self._collect_generator(number, overlay.shadows[path.value])

    def _collect_writes(self, overlay: Overlay, inputs: tuple[Any, ...], versions: list[int]) -> None:
        """Collects writes into storages.

        Their outputs come first, in the order of the inputs: JAX gives a donated buffer to the first output
        of the same kind that has none yet. A value in the buffer of another one is a copy.
        """
        candidates = self._candidates
        for number, (storage, version) in enumerate(zip(candidates.storages, versions, strict=True)):
            cell = overlay.cells[storage]
            is_new = cell.array is not inputs[number]
            if is_new or cell.version != version:
                output = self.put(cell.array, self._layouts[storage]) if is_new else None
                self.effects.writes.append((candidates.holders[number], output, cell.version - version))

    def find_layout(self, operand: int) -> Any:
        """Returns the sharding of an operand over several devices; None for a view, and on one device."""
        storage = self._snapshot.tensors[operand][2]["_storage"]
        return self._layouts.get(storage)  # that of a view is no candidate

    def _lay_out_grads(self) -> None:
        """Notes for the gradients that leave that each is laid out as its parameter."""
        for number, (tensor, *_) in enumerate(self._snapshot.tensors):
            held = tensor.__dict__.get("_grad")
            if held is not None:
                self._layouts.setdefault(held._storage, self.find_layout(number))

    def put(self, array: Any, layout: Any = None) -> int:
        """Returns the number of an array among the outputs, which it joins if it is new.

        Args:
            array: the array.
            layout: its sharding; None for any. An array that has two is two outputs.
        """
        for number, (output, other) in enumerate(zip(self.outputs, self.layouts, strict=True)):
            if output is array and (layout is None or other is None or is_alike(other, layout, array.ndim)):
                self.layouts[number] = other or layout
                return number
        self.outputs.append(array)
        self.layouts.append(layout)
        return len(self.outputs) - 1

    def add_live(self, tensor: Tensor) -> int:
        """Returns the number of a Tensor with a history among the outputs of the node of the call."""
        self.live.append(tensor)
        return len(self.live) - 1

    def _collect_owners(self, leaves: Sequence[Any]) -> None:
        """Collects Tensors that hold their arrays, before the views of these arrays."""
        for leaf in leaves:
            if isinstance(leaf, Tensor) and leaf._storage is leaf._storage.owner:
                self._source(leaf)

    def _collect_result(self, leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return self._source(leaf)
        if isinstance(leaf, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            raise TracingError(
                f"{self._name}: the function returns a {type(leaf).__name__}, whose code would run after the "
                f"call. Got {leaf!r}. Return a list or tuple, and compile no function with yield or async."
            )
        return (self.put(leaf),) if isinstance(leaf, Tracer) else [leaf]

    def _collect_tensor(
        self, number: int, tensor: Tensor, before: dict[str, Any], *, is_grad_set: bool
    ) -> None:
        effects = self.effects
        attributes = tensor.__dict__
        held = attributes.get("_grad")
        if is_grad_set or held is not before.get("_grad"):
            effects.grads.append((number, None if held is None else self._source(held)))
        if attributes["_storage"] is not before["_storage"]:
            count = attributes["_storage"].version - before["_storage"].version
            effects.data.append((number, self._source_of_data(tensor), count))
        node = tensor._grad_fn
        if tensor._root is not None:
            return
        if node is not None and not isinstance(node, Boundary):
            effects.histories.append((number, self.add_live(tensor)))
        elif tensor._requires_grad != before.get("_requires_grad", False):
            effects.flags.append((number, tensor._requires_grad))

    def _collect_generator(self, number: int, shadow: Generator) -> None:
        seed, key, count = shadow.read_state()
        if shadow.is_at_base:
            if count:
                self.effects.generators.append((number, count))
        elif isinstance(key, Tracer):
            raise TracingError(
                f"{self._name}: a Generator from outside was given a state that is computed inside. Got a "
                "traced key. Give it a state outside, or use oplib.Generator.from_key(key) inside."
            )
        else:
            self.effects.generators.append((number, (seed, key, count)))

    def _collect_containers(self) -> None:
        """Notes Tensors that stand in a place of a container now, and refuses numbers that have changed."""
        for number, (path, before) in enumerate(self._snapshot.containers):
            for key, value in (read_entries(path.value) or {}).items():
                if key in before and before[key] is value:
                    continue
                is_added = key not in before and not isinstance(path.value, (list, deque, set))
                if isinstance(value, SCALARS):
                    if not self._is_state(path.value, key):
                        continue  # a side effect, as under jax.jit
                    if not is_added and not _is_equal(before.get(key), value):
                        self._refuse_scalar(path, key, before.get(key), value)
                self._collect_entry(number, key, value, is_placed=is_added or key in before)

    def _is_state(self, holder: Any, key: Any) -> bool:
        """Whether a number belongs to the state of the function.

        It does in an object on the way to a Tensor. In another object of the user it does if the search
        before the trace found it, because the code names the attribute.
        """
        if isinstance(holder, _OF_CODE):
            return False
        if id(holder) in self._on_the_way:
            return True
        is_users = name_package(type(holder)) != "oplib" and not isinstance(holder, (dict, list, deque, set))
        return is_users and key in self._candidates.constants.get(id(holder), ())

    def _collect_entry(self, number: int, key: Any, value: Any, *, is_placed: bool) -> None:
        """Notes what a container holds now, if a call can make it again."""
        leaves, spec = tree_flatten_dataclasses(value)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if is_placed and (tensors or isinstance(value, SCALARS)):
            path, before = self._snapshot.containers[number]
            self._placed.append((path.value, key, before))
            operand = self._candidates.numbers.get(id(key))
            shown = key if operand is None else Operand(operand)
            self._collect_owners(leaves)
            sources = [self._collect_result(leaf) for leaf in leaves]
            self.effects.entries.append(NewEntry(number, shown, sources, spec))
        else:
            where = _show_entry(self._snapshot.containers[number][0], key)
            kept = [path.value for path in Walk(value, tensors).tensors.values()]
            self.made += [(tensor, where) for tensor in kept if id(tensor) not in self._candidates.numbers]

    def _refuse_scalar(self, path: CapturedPath, key: Any, before: Any, after: Any) -> None:
        raise TracingError(
            f"{self._name}: {_show_entry(path, key)} was changed from {before!r} to {after!r} while the "
            "function was traced. A compiled function would not change it again at the next call. Make it a "
            "Tensor that the function writes in place, or an argument and a result."
        )

    def restore_entries(self) -> None:
        """Puts back what stood where a call puts a Tensor."""
        for container, key, before in self._placed:
            if key in (read_entries(container) or {}):
                restore_entry(container, key, before)

    def _source(self, tensor: Tensor) -> Source:
        number = self._candidates.numbers.get(id(tensor))
        if number is not None:
            return Operand(number)
        source = self._tensors.get(id(tensor))
        if source is None:
            self.made.append((tensor, ""))
            source = self._tensors[id(tensor)] = New(len(self.effects.new_tensors))
            self.effects.new_tensors.append(self._describe(tensor))
        return source

    def _describe(self, tensor: Tensor) -> NewTensor:
        storage = tensor._storage
        owner = storage.owner
        slot = self.add_live(tensor) if tensor._requires_grad and tensor._grad_fn is not None else None
        base = self._candidates.find_storage(owner)
        flags = tensor._requires_grad, slot, isinstance(tensor, InferenceTensor)
        if base is not None and storage is owner:
            return NewTensor(*flags, base=base)
        shown = self._storages.get(owner)
        if (base, shown) != (None, None) and isinstance(storage, ViewStorage) and _is_fixed(storage):
            root, chain, starts = self._find_root(tensor), storage.chain, storage.starts
            return NewTensor(*flags, shown, base, root, chain, starts, tensor._creation)
        version, is_inference = storage.version, storage.is_inference
        if storage is not owner:  # a view of a Tensor made inside: its items alone are left after the call
            storage = Storage(storage.array)
        number = self._storages.get(storage)
        if number is None:
            number = self._storages[storage] = len(self.effects.new_storages)
            output = self.put(storage.array, self._layouts.get(tensor._storage))
            self.effects.new_storages.append((output, version, is_inference))
        return NewTensor(*flags, storage=number)

    def _find_root(self, tensor: Tensor) -> Source | None:
        """Returns the Tensor of which another is a view, if it is there after the call."""
        if tensor._root is None:
            return None
        number = self._candidates.numbers.get(id(tensor._root))
        return self._tensors.get(id(tensor._root)) if number is None else Operand(number)

    def _source_of_data(self, tensor: Tensor) -> Source:
        """A Tensor that shows the memory that ``tensor.data = value`` has given to an operand."""
        storage: Any = tensor._storage
        shown = box(None)
        shown._storage = storage.cell if isinstance(storage, AliasStorage) else storage
        for number, path in enumerate(self._candidates.operands):
            if path.value._storage is shown._storage:
                return Operand(number)
        return self._source(shown)


def _is_equal(before: Any, after: Any) -> bool:
    return before.__class__ is after.__class__ and bool(before == after)


def _is_constant(part: Any) -> bool:
    """Whether a part of the result is an object without Tensors and arrays, which comes back as it is."""
    if isinstance(part, (Tensor, dict, list, tuple, deque)):
        return False
    return not any(isinstance(leaf, (Tensor, jax.Array)) for leaf in tree_flatten_dataclasses(part)[0])


def _show_entry(path: CapturedPath, key: Any) -> str:
    """Returns how a user would write an entry of a container."""
    if isinstance(path.value, types.CellType):
        return path.name
    if isinstance(path.value, set):
        return f"an item of {path.name}"
    is_item = isinstance(path.value, (dict, list, deque))
    return f"{path.name}[{key!r}]" if is_item else f"{path.name}.{key}"


def _is_fixed(storage: ViewStorage) -> bool:
    """Whether a view shows the same items at every call."""
    return storage.base is storage.owner and not any(isinstance(start, Tracer) for start in storage.starts)
