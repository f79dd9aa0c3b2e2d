"""One compiled program of a function: what it reads, what it runs, and what a call of it does to Tensors."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import make_gather
from oplib.autograd.array_functions.masks import find_true
from oplib.autograd.recording.lazy_edges import find_links
from oplib.autograd.saved.hooks import KEEP_VALUES
from oplib.library.axes.bodies import calls_any
from oplib.modes import modes
from oplib.tensor import Storage
from oplib.tensor.devices.layout import find_spread, replicate_on_mesh
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.random.draw_log import note_draw
from oplib.tensor.storage.fresh import FreshStorage, get_array, reads
from oplib.tensor.storage.overlay import list_classes
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.paths import SCALARS, CapturedPath
from oplib.transforms.tracing.pruning import prune
from oplib.transforms.tracing.reader import Reader

from .agreement import find_processes, require_agreement
from .arguments import CallArguments
from .call_backward import Backward, CompiledCallBackward, Recipe, StateOfCall, list_sources
from .call_trace import Trace, TracedBackward
from .effects import New, Operand
from .operands import CallOperands, ExpectedOperands
from .write_back import WriteBack

_get_array = attrgetter("array")
_new: Any = tuple.__new__  # a NamedTuple's own ``__new__`` is a Python function
_FRESH = frozenset([FreshStorage])
_CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback"})


History = tuple[CompiledCallBackward, Recipe]
"""The node of a call, and what its higher derivatives need."""


class Program:
    """A compiled function for one kind of call.

    Args:
        trace: what the function did.
        leaves: of the arguments.
        donate: the buffers of written Tensors may be used again.

    Attributes:
        is_compiled: whether XLA has compiled it.
        operands: what is expected of the operands.
        reader: finds them.
        reason: why it was made.
    """

    def __init__(self, trace: Trace, leaves: Sequence[Any], *, donate: bool) -> None:
        self._name = trace.name
        self._effects = effects = trace.effects
        candidates = trace.candidates
        used, run = prune(trace.run, trace.closed, self._name)
        needed = self._find_needed(trace, used)
        read = [holder for holder, use in zip(candidates.holders, used, strict=False) if use]
        candidates.check_devices(self._name, read)
        paths = [candidates.operands[number] for number in needed]
        self._at = {operand: index for index, operand in enumerate(needed)}
        self._sort_inputs(candidates, used)
        handed_out = self._find_handed_out(candidates, trace.closed.jaxpr)
        self._donated = self._find_donated(trace, handed_out) if donate else []
        self._take_donated = make_gather([index for _, index in self._donated])
        read_out = range(len(needed)) if trace.backward else sorted(handed_out)
        self._take_read_out = make_gather(read_out)
        self._turned = [self._at[operand] for operand, _ in effects.storages]
        named, numbers = effects.find_named(), candidates.numbers
        self._named_leaves = {index for index, leaf in enumerate(leaves) if numbers.get(id(leaf)) in named}
        self._has_run, self.is_compiled, self.reason = False, False, ""
        donated = [position for position, _ in self._donated]
        self._layouts = _find_layouts(trace, read)
        shardings = self._layouts if any(self._layouts) else None
        self._run = jax.jit(run, donate_argnums=donated, out_shardings=shardings)
        self.reader = self._make_reader(trace, paths)
        before = [trace.snapshot.tensors[number][2] for number in needed]
        unread = frozenset(self._at[number] for number in trace.unread_grads & self._at.keys())
        self.operands = ExpectedOperands(paths, before, unread)
        self._backward = None
        if trace.backward is not None:
            self._backward = self._make_backward(trace, trace.backward)
        fresh = self._find_fresh(trace) if donate else frozenset[Any]()
        leaves = trace.backward.leaves if trace.backward else ()
        counts = len(needed), len(trace.closed.out_avals)
        self._write_back = WriteBack(effects, self._at, fresh, leaves, counts)
        cleared = [self._at[operand] for operand, _ in effects.grads if self._at[operand] in unread]
        cleared = [] if trace.backward or not donate else cleared
        self._take_cleared = make_gather(cleared)
        self._reuses_memory = bool(cleared or self._donated)

    def _make_reader(self, trace: Trace, paths: list[CapturedPath]) -> Reader:
        """Makes the reader of operands, containers that a call changes, and Generators that are needed."""
        effects, generators = self._effects, trace.candidates.generators
        changed = [(*trace.snapshot.containers[entry.container], entry.key) for entry in effects.entries]
        returned = [result[0] for result in effects.results if isinstance(result, list)]
        drawn = {number // 2 for number in self._rest} | {number for number, _ in effects.generators}
        needed = [
            generator if n in drawn or trace.backward else None for n, generator in enumerate(generators)
        ]
        return Reader(self._name, paths, changed, trace.candidates, returned, needed)

    def _make_backward(self, trace: Trace, backward: TracedBackward) -> Backward:
        """Makes what makes the nodes of calls."""
        entries = [
            (entry.key, {entry.key: before[entry.key]} if entry.key in before else {})
            if not isinstance(entry.key, Operand) and isinstance(before.get(entry.key), SCALARS)
            else None
            for entry in self._effects.entries
            for _, before in [trace.snapshot.containers[entry.container]]
        ]
        linked = [self._at[number] for number in backward.operands]
        self._take_linked = make_gather(linked)
        self._links_leaves = self.operands.are_leaves(linked)
        pairs = modes.state.hook_pairs and (KEEP_VALUES,)
        state = StateOfCall(self.reader, self.operands, modes.autocast, pairs, entries)
        held = [self._at.get(number) for number in trace.candidates.holders]
        sources = list_sources(held, len(self._at), len(trace.closed.in_avals))
        return Backward(trace, backward, sources, state)

    def _sort_inputs(self, candidates: Candidates, used: Sequence[bool]) -> None:
        """Says where each input of the program comes from: an operand, or what follows the operands."""
        count = len(candidates.holders)
        self._held = [self._at[holder] for holder, use in zip(candidates.holders, used, strict=False) if use]
        self._take_held = make_gather(self._held)
        self._rest = find_true(used[count:])
        self._take_rest = make_gather(self._rest)

    def _find_handed_out(self, candidates: Candidates, jaxpr: Any) -> set[int]:
        """The operands whose arrays are outputs as they are: JAX gives these back without a copy."""
        outputs = {id(var) for var in jaxpr.outvars}
        inputs = zip(candidates.holders, jaxpr.invars, strict=False)
        return {self._at[operand] for operand, var in inputs if id(var) in outputs}

    def _find_donated(self, trace: Trace, handed_out: set[int]) -> list[tuple[int, int]]:
        """The inputs whose buffers nothing needs after the call, with the indices of their operands."""
        if trace.backward is not None:
            return []  # the tape keeps the operands of a call that is differentiated outside
        if calls_any(trace.closed, _CALLBACKS):
            return []  # code of the user may raise while the program runs, and the old arrays must be there
        donated: list[tuple[int, int]] = []
        for operand, output, _ in self._effects.writes:
            index = self._at[operand]
            storage = trace.candidates.operands[operand].value._storage.owner
            is_possible = output is not None and index in self._held and index not in handed_out
            if is_possible and FreshStorage in list_classes(storage):
                donated.append((self._held.index(index), index))
        return donated

    def _find_fresh(self, trace: Trace) -> frozenset[Any]:
        """The outputs that stand in one storage after the call, and nowhere else."""
        jaxpr = trace.closed.jaxpr
        effects, donated = self._effects, {index for _, index in self._donated}
        leaves = effects.list_leaves()
        returned = {
            effects.new_tensors[result.number].storage
            for result in effects.results
            if isinstance(result, New)
        }
        inputs = {id(var) for var in jaxpr.invars}
        holders = Counter([output for _, output, _ in effects.writes])
        holders.update(storage.output for storage in effects.new_storages)
        holders.update(leaf[0] for leaf in leaves if isinstance(leaf, tuple))
        if trace.backward is not None:
            holders.update(number for is_input, number in trace.backward.residuals if not is_input)
        holders.update(number for number, var in enumerate(jaxpr.outvars) if id(var) in inputs)
        own = {output for operand, output, _ in effects.writes if self._at[operand] in donated}
        # Results are left out, because the first read of a fresh storage costs more.
        own |= {new.output for number, new in enumerate(effects.new_storages) if number not in returned}
        return frozenset(output for output in own if output is not None and holders[output] == 1)

    def _find_needed(self, trace: Trace, used: Sequence[bool]) -> list[int]:
        """The operands that a call reads, writes or returns, and all Tensors among the arguments."""
        effects, candidates = trace.effects, trace.candidates
        needed = {holder for holder, use in zip(candidates.holders, used, strict=False) if use}
        needed |= effects.find_named()
        if trace.backward is not None:  # a hook may read what the function itself does not
            inputs = {number for is_input, number in trace.backward.residuals if is_input}
            needed |= {holder for number, holder in enumerate(candidates.holders) if number in inputs}
            needed |= set(trace.backward.operands)
        needed |= {number for number, path in enumerate(candidates.operands) if path.parent is None}
        owners = [path.value._storage.owner for path in candidates.operands]
        # The function may have read a storage through another operand.
        shared = {owners[number] for number in needed}
        return [number for number, owner in enumerate(owners) if owner in shared]

    def may_take_apart(self, arguments: CallArguments, tensors: Sequence[Any]) -> bool:
        """Whether the program only reads views that were taken apart, whose memory no Tensor shows."""
        if not arguments.apart:
            return True
        owners = {tensor._storage.owner for tensor in tensors}
        return not any(index in self._named_leaves or owner in owners for index, owner in arguments.apart)

    def explain(self, arguments: CallArguments) -> str:
        """Returns why the program does not serve a call; empty if it does."""
        function, leaves = arguments.function, arguments.leaves
        read = self.reader.read(function, leaves)
        return self.reader.explain(function, leaves) if read is None else self.operands.explain(read[0])

    def run(self, arguments: CallArguments, operands: CallOperands) -> Any:
        """Does what the function does, with the program. The caller holds the lock of buffers."""
        inputs, rest = self._list_inputs(operands, arguments)
        # another program must not use these buffers again
        tuple(map(_get_array, self._take_read_out(operands.owners)))
        returned: list[Sequence[Any]] = []
        history: History | None = None
        try:
            if self._reuses_memory:
                self._compute(operands, inputs, returned)
            else:
                returned.append(self._run(*inputs))
            if self._backward is not None:
                values, tensors = (*operands.arrays, *rest), operands.tensors
                before = self._turned and [(index, tensors[index]._storage) for index in self._turned]
                recipe = _new(Recipe, (arguments, tensors, operands.rest, values, before))
                history = self._backward.start_node(recipe, returned[0]), recipe  # hooks may raise
            return self._finish(operands, history, returned[0])
        except BaseException:
            if returned and (history is not None or self._backward is None):
                self._write_back.write(operands.owners, returned[0], again=True)
            raise

    def _compute(self, operands: CallOperands, inputs: list[Any], returned: list[Sequence[Any]]) -> None:
        """Computes the outputs, and appends them. Inputs whose buffers were read are copied before."""
        for tensor in self._take_cleared(operands.tensors):
            tensor._grad = None  # the program may use its memory
        while not returned:
            seen = reads[0]
            self._copy_read(inputs, operands.owners)
            calls = itertools.starmap(self._run, (inputs,))
            if reads[0] == seen:  # no interrupt and no signal handler after this
                returned.extend(calls)
        self._has_run = True

    def _list_inputs(self, operands: CallOperands, arguments: CallArguments) -> tuple[list[Any], list[Any]]:
        """Returns the inputs, and the values after the operands; None for one that is not read."""
        rest = arguments.arrays
        if operands.rest:
            drawn: list[Any] = []
            for generator in operands.rest[len(self._effects.entries) :]:
                key, count = (None, None) if generator is None else generator.start
                drawn += key, None if count is None else np.uint32(count)
            rest = [*drawn, *rest]
        return [*self._take_held(operands.arrays), *self._take_rest(rest)], rest

    def _finish(self, operands: CallOperands, history: History | None, returned: Sequence[Any]) -> Any:
        """Does to Tensors what the function does, and returns what it returns."""
        tensors, write_back = operands.tensors, self._write_back
        if write_back.writes:
            write_back.write(operands.owners, returned)
            write_back.note(tensors)
        if history is None or self._backward is None:
            values = write_back.make(tensors, returned, None)
        else:
            node, recipe = history
            links = list(self._take_linked(tensors))
            if not self._links_leaves:
                links = find_links(links)
            values = write_back.make(tensors, returned, node)
            if write_back.collecting:
                links += write_back.list_edges(values)
            self._backward.complete_node(node, recipe, links, returned)
        result = write_back.complete(operands.rest, values)
        for number, change in self._effects.generators:
            _advance(operands.rest[len(self._effects.entries) + number], change)
        return result

    def _copy_read(self, inputs: list[Any], owners: Sequence[Storage]) -> None:
        """Copies the inputs to donate whose buffers were read, so that the buffers stay valid."""
        if self._has_run:
            if _FRESH.issuperset(map(type, self._take_donated(owners))):
                return
            read = [n for n, index in self._donated if owners[index].__class__ is not FreshStorage]
            copy = _copy_arrays
        else:  # JAX runs this call in Python code, where an interrupt would lose the results
            read, copy = [n for n, _ in self._donated], _transfer
        if read:
            for position, array in zip(read, copy([inputs[n] for n in read]), strict=True):
                inputs[position] = array

    def compile(self, arguments: CallArguments, operands: CallOperands) -> None:
        """Compiles the program for one call. JAX finds it again when it is run.

        XLA would compute a result that does not fit into memory, and end the process where it is read.

        Raises:
            AllocationError: a result does not fit into memory.
            DeviceError: processes that share its mesh do not all compile it.
        """
        traced = self.trace(arguments, operands)
        for aval, layout in zip(traced.jaxpr.out_avals, self._layouts, strict=True):
            if layout is None:
                require_memory(self._name, aval.shape, aval.dtype, listed=True)
        lowered = traced.lower()
        if processes := find_processes((*operands.arrays, *arguments.arrays)):
            require_agreement(self._name, self.reason, processes, lowered.as_text())
        lowered.compile()
        self.is_compiled = True

    def lower(self, arguments: CallArguments, operands: CallOperands) -> jax.stages.Lowered:
        """Returns the program as JAX lowers it for one call."""
        return self.trace(arguments, operands).lower()

    def trace(self, arguments: CallArguments, operands: CallOperands) -> jax.stages.Traced:
        """Returns the program as JAX traces it for one call."""
        return self._run.trace(*self._list_inputs(operands, arguments)[0])

    def describe_operands(self) -> list[tuple[str, str, bool]]:
        """Returns for each operand its name, its shape, and whether its buffer is donated."""
        donated = {index for _, index in self._donated}
        return [(name, shape, n in donated) for n, (name, shape) in enumerate(self.operands.list_shapes())]

    def describe_effects(self) -> list[tuple[str, str]]:
        """Returns what a call does beside computing: the name of what it changes, and how."""
        names = {number: self.operands.list_shapes()[at][0] for number, at in self._at.items()}
        effects = self._effects
        changes = [(operand, "is written") for operand, *_ in effects.writes]
        changes += [(operand, "is written through its data") for operand, *_ in effects.alias_writes]
        changes += [
            (operand, "loses its grad" if to is None else "gets a grad") for operand, to in effects.grads
        ]
        changes += [(operand, "gets other data, or another shape") for operand, *_ in effects.storages]
        changes += [(operand, f"requires_grad becomes {flag}") for operand, flag in effects.flags]
        changes += [(operand, "gets a history") for operand, _ in effects.histories]
        shown = [(names.get(operand, f"operand {operand}"), how) for operand, how in changes]
        shown += [("a container", f"gets the entry {entry.key!r}") for entry in effects.entries]
        return shown + [("a Generator", "is drawn from") for _ in effects.generators]


def _find_layouts(trace: Trace, read: Sequence[int]) -> list[Any]:
    """Returns for each output its sharding over several devices; None where XLA chooses.

    An array that is written on no device in particular moves to the mesh, and its type should say so, or JAX
    compiles again for that.
    """
    layouts, operands = list(trace.layouts), trace.candidates.operands
    spread = [find_spread(get_array(operands[number].value._storage.owner)) for number in read]
    meshes = [mesh for mesh in spread if mesh is not None]
    for operand, output, _ in trace.effects.writes if meshes else ():
        array = get_array(operands[operand].value._storage.owner)
        if output is not None and layouts[output] is None and not array.committed:
            layouts[output] = replicate_on_mesh(meshes[0])
    return layouts


@jax.jit
def _copy_arrays(arrays: Sequence[Any]) -> list[Any]:
    """Copies arrays in one call. It is compiled for their shapes, and so for those who copy at each call."""
    return [jnp.copy(array) for array in arrays]


def _transfer(arrays: Sequence[Any]) -> Sequence[Any]:
    """Copies arrays without compiling anything.

    Arrays of several processes need a sharding as a destination. Any destination commits an array to its
    devices, and JAX would compile another program for it.
    """
    destinations = [array.sharding if array.committed else None for array in arrays]
    return jax.device_put([*arrays], destinations, may_alias=False)


def _advance(generator: Any, change: Any) -> None:
    before = seed, key, count = generator.get_state()
    note_draw(generator, generator._birth, before)
    generator.set_state((seed, key, count + change) if isinstance(change, int) else change)
