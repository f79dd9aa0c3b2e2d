"""Calls of control flow functions: how their program is found, or made, and run on Tensors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax.core import Tracer

from oplib.autograd.array_functions.array_function import ArrayFunction
from oplib.autograd.array_functions.width import x64
from oplib.autograd.recording.formula_node import call_recorded
from oplib.autograd.tangents import run_without_tangents
from oplib.modes import modes
from oplib.tensor import Storage, Tensor, get_default_dtype

from .body import Body, Captured
from .leaves import LeafLayout, share
from .reach import Reach, TooMuchError

CAPACITY = 256  # programs


@dataclass(frozen=True)
class FlowProgram:
    """A call of control flow as a function of arrays.

    Attributes:
        function: ``(*operands, *arguments) -> results``.
        layouts: of the result, which may be several trees.
        requires_grad: for each leaf of the result, whether the tape would have a history for it.
    """

    function: ArrayFunction
    layouts: tuple[LeafLayout, ...]
    requires_grad: tuple[bool, ...]

    def run(self, operands: Sequence[Tensor], arguments: Sequence[Tensor]) -> list[Tensor]:
        """Calls it, recorded as one node."""
        results = list(run_without_tangents(call_recorded, self.function, [*operands, *arguments]))
        for result, flag in zip(results, self.requires_grad, strict=True):
            if not flag and result._requires_grad:
                result._requires_grad, result._grad_fn = False, None
        return results


@dataclass(frozen=True)
class Outcome:
    """What a program gave.

    Attributes:
        program: it.
        operands: what its bodies have captured.
        results: the leaves of the result.
    """

    program: FlowProgram
    operands: list[Tensor]
    results: list[Tensor]

    def build(self) -> list[Any]:
        """Returns the trees of the result."""
        rest = list(self.results)
        trees: list[Any] = []
        for layout in self.program.layouts:
            trees.append(layout.build(rest[: layout.count]))
            rest = rest[layout.count :]
        return trees


Builder = Callable[[frozenset[int]], tuple[FlowProgram, Sequence[Body]]]
Find = Callable[[Reach], Tensor]


@dataclass(frozen=True)
class _StoredProgram:
    """A program to be used again, and how its operands are found."""

    program: FlowProgram
    finds: Sequence[Find]


class _Programs:
    """The programs of this process. Their keys hold objects of the user weakly."""

    def __init__(self) -> None:
        self._table: OrderedDict[Hashable, _StoredProgram] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> _StoredProgram | None:
        with self._lock:
            found = self._table.get(key)
            if found is not None:
                self._table.move_to_end(key)
            return found

    def put(self, key: Hashable, kept: _StoredProgram) -> None:
        with self._lock:
            self._table[key] = kept
            if len(self._table) > CAPACITY:
                self._table.popitem(last=False)


_programs = _Programs()


def run_program(
    functions: Sequence[Callable[..., Any]], arguments: Sequence[Tensor], static: Hashable, build: Builder
) -> Outcome:
    """Runs a call of control flow, by a program that has been made for such a call, or a new one.

    Args:
        functions: of the user.
        arguments: the leaves of its arguments.
        static: what else distinguishes programs.
        build: makes the program, and says which bodies it runs; gets the ids of Tensors that can be found
            again.
    """
    reach = _reach(functions, arguments)
    if reach is None:
        return _make(build, frozenset(), arguments)[0]
    key = (static, reach.signature, *_describe(arguments))
    kept = _programs.get(key)
    if kept is not None:
        operands = [find(reach) for find in kept.finds]
        return Outcome(kept.program, operands, kept.program.run(operands, arguments))
    outcome, bodies = _make(build, frozenset(map(id, reach.tensors)), arguments)
    finds = _find_operands(bodies, reach)
    if finds is not None:
        _programs.put(key, _StoredProgram(outcome.program, finds))
    return outcome


def _make(
    build: Builder, known: frozenset[int], arguments: Sequence[Tensor]
) -> tuple[Outcome, Sequence[Body]]:
    program, bodies = build(known)
    operands = [operand for body in bodies for operand in body.operands]
    return Outcome(program, operands, program.run(operands, arguments)), bodies


def _reach(functions: Sequence[Callable[..., Any]], arguments: Sequence[Tensor]) -> Reach | None:
    """What functions reach. None where no program is kept: in a trace, and in a mode that watches calls."""
    state = modes.state
    if state.watchers or any(isinstance(one._storage.owner.array, Tracer) for one in arguments):
        return None
    try:
        reach = Reach(functions)
    except TooMuchError:
        return None
    owners = [tensor._storage.owner.array for tensor in reach.tensors]
    return None if any(isinstance(array, Tracer) for array in (*owners, *reach.arrays)) else reach


def _describe(arguments: Sequence[Tensor]) -> tuple[Hashable, ...]:
    types = tuple([(jax.typeof(one._storage.array), one._requires_grad) for one in arguments])
    settings: Any = jax.config
    return (
        types,
        modes.grad_enabled,
        modes.autocast,
        bool(x64.value),
        get_default_dtype(),
        settings.jax_default_matmul_precision,
    )


def _find_operands(bodies: Sequence[Body], reach: Reach) -> list[Find] | None:
    """Returns how the next call finds the operands of a program; None if nothing leads to one of them."""
    finder = _Finder(reach)
    finds: list[Find | None] = []
    for body in bodies:
        finds += [finder.find(captured) for captured in body.captured]
        finds += [finder.find_constant(array) for array in body.constants]
    return None if None in finds else [find for find in finds if find is not None]


class _Finder:
    """Finds in what a function reaches what its trace has captured."""

    def __init__(self, reach: Reach) -> None:
        self._tensors = {id(tensor): place for place, tensor in enumerate(reach.tensors)}
        self._storages = {
            id(one._storage): place
            for place, one in enumerate(reach.tensors)
            if one._storage.owner is one._storage
        }
        self._arrays = {id(array): place for place, array in enumerate(reach.arrays)}

    def find(self, captured: Captured) -> Find | None:
        if captured.owner is not None:
            place = self._tensors.get(id(captured.owner))
            return None if place is None else lambda reach: reach.tensors[place]
        place = self._storages.get(id(captured.storage.owner))
        return None if place is None else lambda reach: share(reach.tensors[place]._storage)

    def find_constant(self, array: Any) -> Find:
        place = self._arrays.get(id(array))
        if place is None:
            kept = share(Storage(array))
            return lambda _: kept
        return lambda reach: share(Storage(reach.arrays[place]))
