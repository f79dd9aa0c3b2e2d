"""One compiled program of a function, and what a call of it does to Tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.compilation import rename_function
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.node import TapeNode
from oplib.autograd.recording.rebase import note_write, take_over
from oplib.generated_code import define_function
from oplib.library.axes.partition import calls_any
from oplib.pytree import tree_unflatten
from oplib.tensor import Storage, Tensor, default_generator
from oplib.tensor.storage.fresh import FreshStorage, buffers, peek, put_fresh
from oplib.tensor.storage.overlay import list_classes
from oplib.tensor.views import AliasStorage, note_view
from oplib.tensor.views.view_storage import make_view_storage

from .arguments import CallArguments
from .backward import Backward, Recipe, fetch
from .candidates import Candidates
from .effects import New, NewTensor, Operand, Source
from .entries import put_entry
from .node import CompiledCallBackward
from .places import FoundObject
from .pruning import find_used_inputs, prune
from .reader import Reader
from .trace import Trace

_new: Any = object.__new__
_ways = itertools.count()
_CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback"})


class Program:
    """A compiled function for one kind of call.

    Args:
        trace: what the function did.
        donate: the buffers of written Tensors may be used again.
    """

    def __init__(self, trace: Trace, *, donate: bool) -> None:
        self._name = trace.name
        self._effects = trace.effects
        self._backward = Backward(trace)
        candidates = trace.candidates
        used = find_used_inputs(trace.closed.jaxpr)
        needed = self._find_needed(trace, used)
        self._operands = {operand: place for place, operand in enumerate(needed)}
        self._sort_inputs(candidates, used)
        self._donated = self._find_donated(trace) if donate else []
        self._has_run = False
        fresh = self._find_fresh()
        self._writes = [
            (self._operands[operand], output, count, output in fresh)
            for operand, output, count in self._effects.writes
        ]
        self._run = jax.jit(
            rename_function(prune(trace.closed, used), self._name),
            donate_argnums=[position for position, _ in self._donated],
        )
        reader = Reader(
            self._name,
            [candidates.operands[operand] for operand in needed],
            [trace.snapshot.tensors[operand][2] for operand in needed],
            {place for _, place in self._donated},
            [(*trace.snapshot.containers[one.container], one.key) for one in self._effects.places],
            candidates,
        )
        self.read, self.explain = reader.read, reader.explain
        containers = [trace.snapshot.containers[one.container][0] for one in self._effects.places]
        self._places = [_compile_way(place, self._name) for place in containers]
        self._draws = [_compile_way(place, self._name) for place in candidates.generators]
        self._edges = [self._operands[number] for number in trace.edges]

    def _sort_inputs(self, candidates: Candidates, used: Sequence[bool]) -> None:
        """Says where each input of the jaxpr comes from, and each input of the program, which are fewer."""
        generators, first = len(candidates.generators), candidates.array_start
        self._sources: list[tuple[str, Any]] = [
            *[("held", self._operands.get(number)) for number in candidates.holders],
            *[("start", (number, part)) for number in range(generators) for part in (0, 1)],
            *[("arrays", number) for number in range(len(used) - first)],
        ]
        kept = [source for source, use in zip(self._sources, used, strict=True) if use]
        self._held = [place for kind, place in kept if kind == "held"]
        self._starts = [place for kind, place in kept if kind == "start"]
        self._arrays = [place for kind, place in kept if kind == "arrays"]

    def _find_donated(self, trace: Trace) -> list[tuple[int, int]]:
        """The inputs whose buffers nothing needs after the call, with the places of their operands."""
        if trace.live_specs:
            return []  # the tape keeps the operands of a call that is differentiated outside
        if calls_any(trace.closed, _CALLBACKS):
            return []  # code of the user may raise while the program runs, and the old arrays must be there
        found: list[tuple[int, int]] = []
        for operand, output, _ in self._effects.writes:
            place = self._operands[operand]
            storage = trace.candidates.operands[operand].value._storage.owner
            if output is not None and place in self._held and FreshStorage in list_classes(storage):
                found.append((self._held.index(place), place))
        return found

    def _find_fresh(self) -> frozenset[int]:
        """The outputs that stand in one written storage after the call, and nowhere else."""
        effects = self._effects
        kept = [*effects.new_storages, *[one[0] for one in effects.results if isinstance(one, tuple)]]
        kept += [number for is_input, number in self._backward.residuals if not is_input]
        written = [output for _, output, _ in effects.writes if output is not None]
        donated = {place for _, place in self._donated}
        return frozenset(
            output
            for operand, output, _ in effects.writes
            if output is not None
            and self._operands[operand] in donated
            and output not in kept
            and written.count(output) == 1
        )

    def _find_needed(self, trace: Trace, used: Sequence[bool]) -> list[int]:
        """The operands that a call reads, writes or returns, and all Tensors among the arguments."""
        effects, candidates = trace.effects, trace.candidates
        found = {holder for holder, use in zip(candidates.holders, used, strict=False) if use}
        found |= {one[0] for one in (*effects.writes, *effects.alias_writes, *effects.grads, *effects.data)}
        found |= {one[0] for one in (*effects.flags, *effects.histories)} | set(trace.edges)
        shown = [source for _, source in (*effects.grads, *effects.data)]
        shown += [source for one in effects.places for source in (one.key, *one.leaves)]
        found |= {source.number for source in (*effects.results, *shown) if isinstance(source, Operand)}
        for tensor in effects.new_tensors:
            found |= {number for number in (tensor.base, tensor.root) if number is not None}
        found |= {number for number, place in enumerate(candidates.operands) if place.parent is None}
        return sorted(found)

    def run(self, function: Any, given: CallArguments, found: Any, call: Any) -> Any:
        """Runs the program, and does to Tensors what the function does.

        Args:
            function: the function; places are found from it.
            given: the arguments.
            found: what the reader has returned for them.
            call: runs the function; gets the arrays that stand for the array arguments.
        """
        if not self._donated:
            return self._run_once(function, given, found, call)
        with buffers:
            return self._run_once(function, given, found, call)

    def _run_once(self, function: Any, given: CallArguments, found: Any, call: Any) -> Any:
        tensors, storages, held = found
        generators = [way(function, given.leaves) for way in self._draws]
        starts = [generator.start for generator in generators]
        inputs = self._list_inputs(held, starts, given.arrays)
        for position, place in self._donated:
            storage = storages[place]
            array = peek(storage)
            # JAX runs a program for the first time in Python code, where an interrupt would lose the results.
            is_free = storage.__class__ is FreshStorage and self._has_run
            inputs[position] = array if is_free else jnp.copy(array)
        returned: list[Sequence[Any]] = []
        try:
            # An interrupt comes between two steps of Python, and here the call and the append are one.
            returned.extend(itertools.starmap(self._run, (inputs,)))
            self._has_run = True
            recipe = Recipe(function, given.leaves, call, tensors, held, starts, given.arrays)
            return self._finish(recipe, storages, generators, returned[0])
        except BaseException:
            if returned:
                self._refill(storages, returned[0])
            raise

    def _refill(self, storages: Sequence[Storage], outputs: Sequence[Any]) -> None:
        """Completes the writes of a call that was interrupted: the old arrays are gone."""
        for place, output, count, _ in self._writes:
            storage = storages[place]
            if output is not None and peek(storage) is not outputs[output]:
                storage.array = outputs[output]
                storage.version += count

    def _finish(
        self, recipe: Recipe, storages: Sequence[Storage], generators: Sequence[Any], outputs: Sequence[Any]
    ) -> Any:
        """Does to Tensors what the function does, and returns what it returns."""
        tensors = recipe.tensors
        node = None
        if self._backward.specs:
            node = self._make_node(recipe, outputs, [tensor._storage.version for tensor in tensors])
        self._write(tensors, storages, outputs)
        made = self._make_tensors(tensors, outputs, node)
        self._apply(tensors, made, node)
        if self._places:
            containers = [way(recipe.function, recipe.leaves) for way in self._places]
            self._put_entries(containers, tensors, made, outputs)
        for number, change in self._effects.generators:
            _advance(generators[number], change)
        results = [self._give(one, tensors, made, outputs) for one in self._effects.results]
        return tree_unflatten(results, self._effects.spec)

    def _list_inputs(self, held: Any, starts: Sequence[tuple[Any, int]], arrays: Sequence[Any]) -> list[Any]:
        return [
            *[held[place] for place in self._held],
            *[np.uint32(starts[number][1]) if part else starts[number][0] for number, part in self._starts],
            *[arrays[number] for number in self._arrays],
        ]

    def lower(self, function: Any, given: CallArguments, found: Any) -> jax.stages.Lowered:
        """Returns the program as JAX lowers it for one call."""
        starts = [way(function, given.leaves).start for way in self._draws]
        return self._run.lower(*self._list_inputs(found[2], starts, given.arrays))

    def _write(self, tensors: Sequence[Tensor], storages: Sequence[Storage], outputs: Sequence[Any]) -> None:
        """Puts new arrays into written storages, and counts the writes."""
        for place, output, count, is_fresh in self._writes:
            storage = storages[place]
            if is_fresh and output is not None:
                put_fresh(storage, outputs[output])
            elif output is not None:
                storage.array = outputs[output]
            storage.version += count
            if tensors[place]._views is not None:
                note_write(tensors[place])
        for operand, count in self._effects.alias_writes:
            tensors[self._operands[operand]]._storage.version += count

    def _apply(self, tensors: Sequence[Tensor], made: Sequence[Tensor], node: Any) -> None:
        """Gives operands their new gradients, histories and data."""
        effects, at = self._effects, self._operands

        def find(source: Source) -> Tensor:
            return tensors[at[source.number]] if isinstance(source, Operand) else made[source.number]

        for operand, slot in effects.histories:
            take_over(tensors[at[operand]], (node, slot))
        for operand, value in effects.flags:
            tensors[at[operand]]._requires_grad = value
        for operand, source in effects.data:
            tensor = tensors[at[operand]]
            tensor._storage = AliasStorage(find(source)._storage, tensor._storage.version)
        for operand, source in effects.grads:
            tensors[at[operand]]._grad = None if source is None else find(source)

    def _put_entries(
        self, containers: Sequence[Any], tensors: Sequence[Tensor], made: Sequence[Tensor], outputs: Any
    ) -> None:
        """Lets containers hold what they hold after the call."""
        for container, one in zip(containers, self._effects.places, strict=True):
            key = tensors[self._operands[one.key.number]] if isinstance(one.key, Operand) else one.key
            leaves = [self._give(leaf, tensors, made, outputs) for leaf in one.leaves]
            put_entry(container, key, tree_unflatten(leaves, one.spec))

    def _give(
        self, one: Any, tensors: Sequence[Tensor], made: Sequence[Tensor], outputs: Sequence[Any]
    ) -> Any:
        """Returns a leaf of the result: a Tensor, an output, or a constant."""
        if isinstance(one, Operand):
            return tensors[self._operands[one.number]]
        if isinstance(one, New):
            return made[one.number]
        return outputs[one[0]] if isinstance(one, tuple) else one[0]

    def _make_tensors(self, tensors: Any, outputs: Any, node: TapeNode | None) -> list[Tensor]:
        storages = [Storage(outputs[output]) for output in self._effects.new_storages]
        return [self._make_tensor(one, tensors, storages, node) for one in self._effects.new_tensors]

    def _make_tensor(
        self, one: NewTensor, tensors: Any, storages: list[Storage], node: TapeNode | None
    ) -> Tensor:
        tensor = _new(Tensor)
        if one.storage is not None:
            tensor._storage = storages[one.storage]
        else:
            assert one.base is not None
            owner = tensors[self._operands[one.base]]._storage.owner
            tensor._storage = owner if one.chain is None else make_view_storage(owner, one.chain, one.starts)
        if one.requires_grad:
            tensor._requires_grad = True
        if one.slot is not None:
            tensor._grad_fn, tensor._output_nr = node, one.slot
        if one.root is not None:
            tensor._root = tensors[self._operands[one.root]]
            note_view(tensor._root, tensor)
        return tensor

    def _make_node(self, recipe: Recipe, outputs: Any, versions: Sequence[int]) -> CompiledCallBackward:
        saved: list[Any] = []
        read: list[tuple[Storage, int]] = []
        for is_input, number in self._backward.residuals:
            saved.append(fetch(recipe, self._sources[number]) if is_input else outputs[number])
            if is_input and self._sources[number][0] == "held":
                place = self._sources[number][1]
                read.append((recipe.tensors[place]._storage, versions[place]))
        edges = [gradient_edge(recipe.tensors[place]) for place in self._edges]
        return self._backward.make_node(edges, saved, read, recipe)


def _compile_way(place: FoundObject, name: str) -> Callable[..., Any]:
    steps: list[str] = []
    at: FoundObject | None = place
    while at is not None:
        steps.append(at.step)
        at = at.parent
    expression = ""
    for step in reversed(steps):
        expression = step.format(expression)
    way = f"def find(function, leaves):\n    return {expression}"
    shown = f"<oplib.jit way {next(_ways)} of {name}>"
    return define_function(way, "find", shown, {"default_generator": default_generator})


def _advance(generator: Any, change: Any) -> None:
    if isinstance(change, int):
        seed, key, count = generator.get_state()
        generator.set_state((seed, key, count + change))
    else:
        generator.set_state(change)
