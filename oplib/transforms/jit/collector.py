"""Reads off Tensors, containers and Generators what a function has done to them while it was traced."""

from __future__ import annotations

import types
from collections import defaultdict, deque
from functools import cached_property
from typing import Any

import jax
from jax.core import ShapedArray, Tracer
from jax.flatten_util import ravel_pytree

from oplib.autograd.recording.view import StaleView, has_lost_history
from oplib.errors import TracingError
from oplib.library.op_records.sites import find_definition
from oplib.protocols import Values
from oplib.pytree import tree_flatten_dataclasses
from oplib.tensor import Generator, Storage, Tensor
from oplib.tensor.devices.layout import find_spread, is_alike
from oplib.tensor.inference import InferenceTensor
from oplib.tensor.methods.copying import users_attributes
from oplib.tensor.storage.fresh import get_array
from oplib.tensor.storage.overlay import Overlay
from oplib.tensor.views import AliasStorage, ViewStorage
from oplib.transforms.tracing.boundary import Boundary
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.entries import read_entries, restore_entry
from oplib.transforms.tracing.observed_tensor import StateSnapshot
from oplib.transforms.tracing.paths import SCALARS, CapturedPath, Walk, name_package
from oplib.transforms.tracing.python_changes import (
    Definitions,
    UsesOfCode,
    find_reordered,
    is_equal_inside,
    refuse_change,
    show_entry,
)

from .effects import Effects, New, NewEntry, NewTensor, Operand, PackedGrad, Source
from .memory import MemoryAfterCall

_OF_CODE = (types.CellType, types.FunctionType)
_ABSENT: Any = object()
FEWEST_PACKED = 8
_LARGEST_GRAD = 2**12  # items; to copy 16,384 takes as long as to return an array


class Collector:
    """Collects the effects of one trace, and the arrays that its program has to return for them.

    Attributes:
        effects: what a call does beside computing.
        outputs: the arrays that the program returns.
        layouts: for each of them its sharding over several devices; None where XLA chooses.
        live: the Tensors with a history that exist after the call.
        leaves: the Tensors after the call that collect a gradient, and did not before it.
        made: the Tensors that were made inside and are kept outside, each with its path if that is known.
    """

    def __init__(self, name: str, candidates: Candidates, snapshot: StateSnapshot) -> None:
        self._name = name
        self._candidates = candidates
        self._snapshot = snapshot
        self._definitions = Definitions(candidates)
        self._layouts = {storage: find_spread(get_array(storage)) for storage in candidates.storages}
        self._memory = MemoryAfterCall(snapshot, self._put_storage)
        self._reset()

    def end(self) -> None:
        """Forgets all values of the trace."""
        self._memory = MemoryAfterCall(self._snapshot, self._put_storage)
        self.live, self.made, self.outputs, self.leaves = [], [], [], []
        self._tensors = {}

    @cached_property
    def _uses(self) -> UsesOfCode:
        return UsesOfCode(self._candidates)

    def collect(self, result: Any, overlay: Overlay, inputs: Values, versions: list[int]) -> None:
        """Collects everything, with the inputs of the jaxpr and the versions of storages before the trace."""
        effects, candidates = self.effects, self._candidates
        self._collect_writes(overlay, inputs, versions)
        self._lay_out_grads()
        self._collect_storages()
        leaves, effects.spec = tree_flatten_dataclasses(result, _is_constant)
        self._collect_containers()
        effects.results = list(map(self._collect_result, leaves))
        for number, (tensor, _, before) in enumerate(self._snapshot.tensors):
            self._collect_tensor(number, tensor, before)
        self._collect_grads(overlay)
        counters: set[Storage] = set()
        for alias, version in self._snapshot.aliases:
            counter = _find_counter(alias)
            if alias.version != version and counter not in counters and not _is_counted(alias, overlay):
                counters.add(counter)  # which several aliases may share
                operand, index = self._snapshot.find_alias(alias)
                effects.alias_writes.append((operand, index, alias.version - version))
        for number, path in enumerate(candidates.generators):
            self._collect_generator(number, overlay.shadows[path.value])
        effects.new_storages = self._memory.new
        if self._memory.must_begin_again():
            self._reset()
            self.collect(result, overlay, inputs, versions)

    def _reset(self) -> None:
        """Starts a collection."""
        self.forget_effects()
        self.made: list[tuple[Tensor, str]] = []
        self.leaves: list[tuple[Source, Tensor]] = []
        self._tensors: dict[int, New] = {}
        self._placed: list[tuple[Any, Any, dict[Any, Any]]] = []

    def forget_effects(self) -> None:
        """Forgets the effects with the outputs of the program."""
        self.effects = Effects()
        self.outputs: list[Any] = []
        self.layouts: list[Any] = []
        self.live: list[Tensor] = []
        self._numbers: dict[int, list[int]] = {}

    def _collect_writes(self, overlay: Overlay, inputs: Values, versions: list[int]) -> None:
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

    def _collect_storages(self) -> None:
        """Collects the operands whose ``data`` was assigned."""
        for number, (tensor, _, before) in enumerate(self._snapshot.tensors):
            storage = tensor.__dict__["_storage"]
            if storage is not before["_storage"]:
                self.effects.storages.append((number, self._memory.find(storage)))

    def find_layout(self, operand: int) -> Any:
        """Returns the sharding of an operand over several devices; None for a view, and on one device."""
        storage = self._snapshot.tensors[operand][2]["_storage"]
        return self._layouts.get(storage)  # that of a view is no candidate

    def _lay_out_grads(self) -> None:
        """Notes for the gradients that leave that each is laid out as its parameter."""
        for number, (tensor, *_) in enumerate(self._snapshot.tensors):
            held = tensor.__dict__.get("_grad")
            if isinstance(held, Tensor):
                self._layouts.setdefault(held._storage, self.find_layout(number))

    def _put_storage(self, storage: Storage) -> int:
        return self.put(storage.array, self._layouts.get(storage))

    def put(self, array: Any, layout: Any = None) -> int:
        """Returns the number of an array among the outputs, which it joins if it or its sharding is new."""
        numbers = self._numbers.setdefault(id(array), [])  # one in nearly all cases
        for number in numbers:
            other = self.layouts[number]
            if layout is None or other is None or is_alike(other, layout, array.ndim):
                self.layouts[number] = other or layout
                return number
        numbers.append(len(self.outputs))
        self.outputs.append(array)
        self.layouts.append(layout)
        return len(self.outputs) - 1

    def release(self) -> None:
        """Ends a cycle of references, which would keep the arguments of the call alive."""
        del self._memory

    def add_live(self, tensor: Tensor) -> int:
        """Returns the number of a Tensor with a history among the outputs of the node of the call."""
        self.live.append(tensor)
        return len(self.live) - 1

    def _collect_result(self, leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return self._source(leaf)
        if isinstance(leaf, (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)):
            raise TracingError(
                f"{self._name}: the function returns a {type(leaf).__name__}, whose code would run after the "
                f"call. Got {leaf!r}. Return a list or tuple, and compile no function with yield or async."
            )
        return (self.put(leaf),) if isinstance(leaf, Tracer) else [leaf]

    def _collect_tensor(self, number: int, tensor: Tensor, before: dict[str, Any]) -> None:
        effects = self.effects
        if isinstance(tensor, StaleView):
            return  # it looks its history up
        node = tensor.__dict__.get("_grad_fn")
        if node is not None and not isinstance(node, Boundary):
            root = tensor._root
            root_tells = (
                root is not None and (root._grad_fn or before.get("_grad_fn") is None) and root._requires_grad
            )
            if not root_tells:
                effects.histories.append((number, self.add_live(tensor)))
        elif tensor._requires_grad != before.get("_requires_grad", False) or (
            node is None and before.get("_grad_fn") is not None
        ):
            effects.flags.append((number, tensor._requires_grad))
            if tensor._requires_grad:
                self.leaves.append((Operand(number), tensor))

    def _collect_grads(self, overlay: Overlay) -> None:
        """Collects the gradients of operands that have others than before.

        Many small ones leave in one array for each dtype, if nothing else shows their memory, and if nearly
        nobody reads them: the step clears its gradients and computes with the new ones itself, so the leaf is
        written too, and its old gradient has no influence.
        """
        effects = self.effects
        written = {operand for operand, *_ in effects.writes if overlay.device is not None}
        groups: Any = defaultdict(list, {None: []})  # by dtype; under None those that leave as Tensors
        for number, (tensor, _, before) in enumerate(self._snapshot.tensors):
            grad: Any = tensor.__dict__.get("_grad")
            if id(tensor) in overlay.set_grads or grad is not before.get("_grad"):
                is_unread = number in written and id(tensor) not in overlay.read_grads
                groups[grad.dtype if is_unread and _may_be_packed(grad) else None].append((number, grad))
        for dtype, group in groups.items():  # first those under None, which may show memory of the others
            own = {grad._storage for _, grad in group if dtype is not None} - self._memory.shown.keys()
            if not len(group) == len(own) >= FEWEST_PACKED:
                effects.grads += [(n, None if grad is None else self._source(grad)) for n, grad in group]
                continue
            output, start = self.put(ravel_pytree([grad._storage.array for _, grad in group])[0]), 0
            for number, grad in group:
                effects.grads.append((number, PackedGrad(output, (start, grad.shape, grad._version))))
                self.made.append((grad, ""))
                start += grad.numel()

    def _refuse_hooks(self, tensor: Tensor, name: str) -> None:
        """Raises if a hook was registered on a new Tensor that outlives the call, and is still there."""
        hooks = {**(tensor._backward_hooks or {}), **(tensor._post_accumulate_hooks or {})}
        for hook in hooks.values():
            shown = f"{getattr(hook, '__qualname__', hook)} of {find_definition(hook)}"
            raise TracingError(
                f"{self._name}: a hook was registered on {name} while the function was traced, and a call "
                f"of the program registers none. Got {shown}. Register it outside of the function, or remove "
                "it inside by its handle."
            )

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
            now = read_entries(path.value) or {}
            if isinstance(path.value, Tensor):
                self._refuse_attributes(path, before, now)
                continue
            self._check_structure(path, before, now)
            for key, value in now.items():
                if key in before and (before[key] is value or is_equal_inside(path, value, before[key])):
                    continue
                is_added = key not in before and not isinstance(path.value, (list, deque, set))
                if isinstance(value, SCALARS):
                    is_state = self._is_state(path.value, key)
                    if not is_state:
                        self._check_unread(path, before, key)
                    if not is_state and not (is_added and self._uses.read_entry(path, key)):
                        continue  # a side effect, as under jax.jit
                    held = before.get(key)
                    if not is_added and not (held.__class__ is value.__class__ and held == value):
                        self._refuse_scalar(path, key, held, value)
                self._collect_entry(number, key, value, is_placed=is_added or key in before)
        for path, name, held in self._definitions.list_changed():
            if self._uses.read_entry(path, name):
                setattr(path.value, name, held)
                refuse_change(self._name, f"{path.name}.{name}")

    def _refuse_attributes(self, path: CapturedPath, before: dict[Any, Any], now: dict[Any, Any]) -> None:
        """Raises if an attribute of a Tensor from outside was set or deleted."""
        for key in before.keys() | now.keys():
            if before.get(key, _ABSENT) is not now.get(key, _ABSENT):
                raise TracingError(
                    f"{self._name}: the attribute {show_entry(path, key)} of a tensor from outside was "
                    "changed while the function was traced. A compiled program changes its values, data and "
                    "grad only. Keep the value in a dictionary or in an object of your own."
                )

    def _is_state(self, holder: Any, key: Any) -> bool:
        """Whether a number belongs to the state of the function.

        It does in an object on the way to a Tensor. In another object of the user it does if the search
        before the trace found it, because the code names the attribute.
        """
        if isinstance(holder, _OF_CODE):
            return False
        if id(holder) in self._candidates.ancestors:
            return True
        is_users = name_package(type(holder)) != "oplib" and not isinstance(holder, (dict, list, deque, set))
        held = self._candidates.constants.get(id(holder), ())
        return is_users and (hasattr(type(holder), key) or any(key == child.name_in_code for child in held))

    def _collect_entry(self, number: int, key: Any, value: Any, *, is_placed: bool) -> None:
        """Notes what a container holds now, if a call can make it again."""
        leaves, spec = tree_flatten_dataclasses(value)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if is_placed and (tensors or isinstance(value, SCALARS)):
            path, before = self._snapshot.containers[number]
            self._placed.append((path.value, key, before))
            operand = self._candidates.numbers.get(id(key))
            shown = key if operand is None else Operand(operand)
            sources = list(map(self._collect_result, leaves))
            self.effects.entries.append(NewEntry(number, shown, sources, spec))
        else:
            self._check_unread(*self._snapshot.containers[number], key)
            where = show_entry(self._snapshot.containers[number][0], key)
            kept = [path.value for path in Walk(value, tensors).tensors.values()]
            self.made += [(tensor, where) for tensor in kept if id(tensor) not in self._candidates.numbers]

    def _check_structure(self, path: CapturedPath, before: dict[Any, Any], now: dict[Any, Any]) -> None:
        """Raises if the code reads a container that has lost an entry, or has others or another order."""
        for key in () if isinstance(path.value, (list, deque, set)) else before.keys() - now.keys():
            self._check_unread(path, before, key)
        if find_reordered(path.value, before, now) and self._uses.read_container(path):
            refuse_change(self._name, path.name)

    def _check_unread(self, path: CapturedPath, before: dict[Any, Any], key: Any) -> None:
        """Raises if the code reads an entry that a call does not change again."""
        if key in before and self._uses.read_entry(path, key):
            refuse_change(self._name, show_entry(path, key))

    def _refuse_scalar(self, path: CapturedPath, key: Any, before: Any, after: Any) -> None:
        raise TracingError(
            f"{self._name}: {show_entry(path, key)} was changed from {before!r} to {after!r} while the "
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
            described = self._describe(tensor)
            source = self._tensors[id(tensor)] = New(len(self.effects.new_tensors))
            self.effects.new_tensors.append(described)
            self.made.append((tensor, ""))
            self._collect_more(source, tensor)
        return source

    def _describe(self, tensor: Tensor) -> NewTensor:
        is_lost = has_lost_history(tensor)
        has_node = not is_lost and tensor._requires_grad and tensor._grad_fn is not None
        slot = self.add_live(tensor) if has_node else None
        storage, root = tensor._storage, tensor._root
        is_turned = root is None and isinstance(storage, ViewStorage)  # in place
        is_copied = not is_turned and not is_lost and self._memory.is_copied(storage)
        return NewTensor(
            tensor._requires_grad,
            slot,
            self._memory.copy(storage) if is_copied else self._memory.find(storage),
            StaleView if is_lost else InferenceTensor if isinstance(tensor, InferenceTensor) else Tensor,
            None if is_copied or root is None else self._source(root),
            0 if is_copied else tensor._creation,
            "x[traced]" if self._memory.loses_base(storage) else tensor._read_only,
            tensor._retains_grad and slot is not None,
        )

    def _collect_more(self, source: New, tensor: Tensor) -> None:
        """Collects what a new Tensor has beside its memory and its history."""
        if tensor._grad is not None:
            self.effects.new_grads.append((source.number, self._source(tensor._grad)))
        if has_lost_history(tensor):
            return
        if tensor._retains_grad and tensor._grad_fn is not None:
            self._refuse_hooks(tensor, "a result that retains its gradient")
            self.leaves.append((source, tensor))
        if tensor._grad_fn is None and tensor._requires_grad:
            self.leaves.append((source, tensor))
            self._refuse_hooks(tensor, "a leaf that is returned")
        for name, value in users_attributes(tensor).items():
            leaves, spec = tree_flatten_dataclasses(value)
            sources = list(map(self._collect_result, leaves))
            self.effects.attributes.append(NewEntry(source.number, name, sources, spec))


def _may_be_packed(grad: Any) -> bool:
    """Whether a gradient that was made inside has no more than an array, of a common type, that is small."""
    if type(grad) is not Tensor or vars(grad).keys() - {"_storage", "_trace"}:
        return False
    array = grad._storage.array
    is_common = jax.typeof(array) == ShapedArray(array.shape, array.dtype)  # not weak, and on no mesh
    return is_common and array.size <= _LARGEST_GRAD and type(grad._storage) is Storage


def _find_counter(alias: AliasStorage) -> Storage:
    """Returns the storage that holds the version of an alias."""
    counter: Storage = alias
    while isinstance(counter, AliasStorage):
        counter = counter.counter
    return counter


def _is_counted(alias: AliasStorage, overlay: Overlay) -> bool:
    """Whether the writes through an alias are counted by a storage of the overlay."""
    counters = (alias.counter, None if alias.former is None else alias.former())
    return any(counter is not None and counter.owner in overlay.cells for counter in counters)


def _is_constant(part: Any) -> bool:
    """Whether a part of the result is an object without Tensors and arrays, which comes back as it is."""
    if isinstance(part, (Tensor, dict, list, tuple, deque)):
        return False
    return not any(isinstance(leaf, (Tensor, jax.Array)) for leaf in tree_flatten_dataclasses(part)[0])
