"""One compiled program of a function: what it reads, what it runs, and what a call of it does to Tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import make_gather
from oplib.autograd.array_functions.masks import find_true, pick_given
from oplib.autograd.saved_tensors.hooks import KEEP_VALUES
from oplib.generated_code import fill_template, refer
from oplib.library.batching_and_sharding.bodies import calls_any
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.tensor import Storage, Tensor
from oplib.tensor.devices.layout import find_spread, replicate_on_mesh
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.storage.fresh import FreshStorage, get_array
from oplib.tensor.storage.overlay import list_classes
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.paths import SCALARS, CapturedPath
from oplib.transforms.tracing.pruning import prune
from oplib.transforms.tracing.reader import Reader

from .agreement import find_processes, require_agreement
from .arguments import CallArguments
from .call_backward import Backward, StateOfCall, list_sources
from .call_lines import (
    BODY,
    CALL,
    CLEAR,
    COMPLETE,
    LINK,
    OBJECTS,
    RECORD,
    REUSE,
    WRITE,
    WRITING,
    copy_read,
)
from .call_trace import Trace, TracedBackward
from .effects import New, Operand
from .operands import ExpectedOperands
from .write_back import WriteBack

_CALLBACKS = frozenset({"pure_callback", "io_callback", "debug_callback"})


class Program:
    """A compiled function for one kind of call.

    Args:
        trace: what the function did.
        leaves: of the arguments.
        donate: the buffers of written Tensors may be used again.

    Attributes:
        is_compiled: whether XLA has compiled it.
        operands: what is expected of the operands.
        may_take_apart: whether the program only reads views that were taken apart, and whose memory no Tensor
            shows.
        reader: finds the operands.
        reason: why it was made.
        serve: serves a call, or returns ``MISSED``: ``(arguments, use) -> result``. With ``use`` it returns
            ``use(inputs, arrays)`` in place of running the program. The caller holds the lock of buffers.
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
        named, numbers = effects.find_named(), candidates.numbers
        named_leaves = {index for index, leaf in enumerate(leaves) if numbers.get(id(leaf)) in named}
        self.may_take_apart = partial(_may_take_apart, named_leaves)
        self.is_compiled, self.reason = False, ""
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
        linked = trace.backward.operands if trace.backward else ()
        picked: dict[str, Sequence[int]] = {
            "take_cleared": [] if trace.backward or not donate else cleared,
            "take_donated": [index for _, index in self._donated],
            "take_linked": [self._at[number] for number in linked],
            "take_read_out": range(len(needed)) if trace.backward else sorted(handed_out),
        }
        self.serve = self._write(picked, [self._at[operand] for operand, _ in effects.storages])

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
        pairs = modes.state.hook_pairs and (KEEP_VALUES,)
        state = StateOfCall(self.reader, self.operands, modes.autocast, pairs, entries)
        held = list(map(self._at.get, trace.candidates.holders))
        sources = list_sources(held, len(self._at), len(trace.closed.in_avals))
        return Backward(trace, backward, sources, state)

    def _sort_inputs(self, candidates: Candidates, used: Sequence[bool]) -> None:
        """Says where each input of the program comes from: an operand, or what follows the operands."""
        count = len(candidates.holders)
        self._held = [self._at[holder] for holder, use in zip(candidates.holders, used, strict=False) if use]
        self._rest = find_true(used[count:])

    def _find_handed_out(self, candidates: Candidates, jaxpr: Any) -> set[int]:
        """The operands whose arrays are outputs as they are: JAX gives these back without a copy."""
        outputs = {*map(id, jaxpr.outvars)}
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
            # XLA may spread what lies on no device in particular, if others are on a mesh
            is_placed = trace.device is not None or get_array(storage).committed
            if is_possible and is_placed and FreshStorage in list_classes(storage):
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
        inputs = {*map(id, jaxpr.invars)}
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

    def explain(self, arguments: CallArguments) -> str:
        """Returns why the program does not serve a call; empty if it does."""
        found = self.reader.read(arguments.function, arguments.leaves)
        return found if isinstance(found, str) else self.operands.explain(found[0])

    def _write(self, picked: dict[str, Sequence[int]], turned: Sequence[int]) -> AnyFunction:
        """Writes the function that serves calls, with the lines that this program needs.

        Args:
            picked: the functions that pick operands, and the indices of these.
            turned: the operands that show other memory after a call.
        """
        reader, effects, write_back = self.reader, self._effects, self._write_back
        objects = {**OBJECTS, "run": self._run, "write_back": write_back, "backward": self._backward}
        objects |= {"may_take_apart": self.may_take_apart, "copy_read": partial(copy_read, self._donated)}
        objects |= {"turned": turned, "collecting": write_back.collecting}
        objects |= {name: make_gather(indices) for name, indices in picked.items()}
        starts = reader.rest[len(effects.entries) :]
        draw = [f"key_{name}, count_{name} = {name}.start" for name in starts if name]
        ahead = 0 if draw else 2 * len(starts)
        if draw:
            drawn = [f"key_{name}, uint32(count_{name})" if name else "None, None" for name in starts]
            draw.append(f"values = [{', '.join(drawn)}, *values]")
        inputs = [f"arrays[{index}]" for index in self._held]
        if self._held == list(range(len(reader.tensors))):
            inputs = ["*arrays"]
        return reader.write(
            CALL,
            "MISSED",
            objects,
            fit="\n".join(self.operands.list_lines(reader.tensors, objects)),
            draw="\n".join(draw),
            inputs=", ".join([*inputs, *[f"values[{n - ahead}]" for n in self._rest]]),
            read_out="tuple(map(read_array, take_read_out(owners)))" if picked["take_read_out"] else "",
            body=self._write_body(picked, objects),
        )

    def _write_body(self, picked: dict[str, Sequence[int]], objects: dict[str, Any]) -> str:
        """Returns the lines that run the program, and do to Tensors what the user's function does."""
        effects, write_back = self._effects, self._write_back
        record, link, complete = ("", "", "") if self._backward is None else (RECORD, LINK, COMPLETE)
        find = "list" if self.operands.are_leaves(picked["take_linked"]) else "find_links"
        made, result = write_back.list_lines(objects)
        changes = [(len(effects.entries) + n, change) for n, change in effects.generators]
        body = fill_template(
            BODY,
            clear=CLEAR if picked["take_cleared"] else "",
            compute=REUSE if self._donated else "returned = run(*inputs)",
            record=record,
            write=WRITE if write_back.writes else "",
            link=link.format(find=find),
            make="\n".join(made),
            complete=complete,
            fill="write_back.fill(rest, values)" if write_back.fills else "",
            result=result,
            advance="\n".join(
                f"advance(rest[{place}], {refer(objects, change, 'change')})" for place, change in changes
            ),
        )
        return fill_template(WRITING, body=body) if write_back.writes else body

    def compile(self, inputs: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Compiles the program for one call. JAX finds it again when it is run.

        XLA would compute a result that does not fit into memory, and end the process where it is read.

        Args:
            inputs: of the program.
            arrays: those of its operands.

        Raises:
            AllocationError: a result does not fit into memory.
            DeviceError: processes that share its mesh do not all compile it.
        """
        traced = self.trace(inputs)
        for aval, layout in zip(traced.jaxpr.out_avals, self._layouts, strict=True):
            if layout is None:
                require_memory(self._name, aval.shape, aval.dtype, listed=True)
        lowered = traced.lower()
        if processes := find_processes((*arrays, *inputs)):
            require_agreement(self._name, self.reason, processes, lowered.as_text())
        lowered.compile()
        self.is_compiled = True

    def lower(self, inputs: Sequence[Any], _: Sequence[Any]) -> jax.stages.Lowered:
        """Returns the program as JAX lowers it for one call."""
        return self.trace(inputs).lower()

    def trace(self, inputs: Sequence[Any]) -> jax.stages.Traced:
        """Returns the program as JAX traces it for one call."""
        return self._run.trace(*inputs)

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


def _may_take_apart(named: set[int], apart: Sequence[tuple[int, Storage]], tensors: Sequence[Tensor]) -> bool:
    owners = {tensor._storage.owner for tensor in tensors}
    return not any(index in named or owner in owners for index, owner in apart)


def _find_layouts(trace: Trace, read: Sequence[int]) -> list[Any]:
    """Returns for each output its sharding over several devices; None where XLA chooses.

    An array that is written on no device in particular moves to the mesh, and its type should say so, or JAX
    compiles again for that.
    """
    layouts, operands = list(trace.layouts), trace.candidates.operands
    spread = [find_spread(get_array(operands[number].value._storage.owner)) for number in read]
    meshes = pick_given(spread)
    for operand, output, _ in trace.effects.writes if meshes else ():
        array = get_array(operands[operand].value._storage.owner)
        if output is not None and layouts[output] is None and not array.committed:
            layouts[output] = replicate_on_mesh(meshes[0])
    return layouts
