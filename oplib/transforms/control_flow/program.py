"""Calls of control flow functions: how their program is found, or made, and run on Tensors."""

from __future__ import annotations

import threading
import weakref
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
from oplib.tensor import Tensor, get_default_dtype
from oplib.transforms.captures.candidates import Candidates
from oplib.transforms.captures.places import Walk
from oplib.transforms.captures.program_table import ProgramTable

from .body import Body
from .finder import OperandFinder, make_finder
from .leaves import LeafLayout
from .region import Captured, list_captured


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


Builder = Callable[[Sequence[Captured]], tuple[FlowProgram, Sequence[Body]]]


@dataclass(frozen=True)
class _StoredProgram:
    """A program to be used again, and what finds its operands."""

    program: FlowProgram
    operands: OperandFinder


_programs: ProgramTable[_StoredProgram] = ProgramTable()  # it holds objects of the user weakly
_lock = threading.Lock()  # of the table


def run_program(
    functions: Sequence[Callable[..., Any]], arguments: Sequence[Tensor], static: Hashable, build: Builder
) -> Outcome:
    """Runs a call of control flow, by a program that has been made for such a call, or a new one.

    Args:
        functions: of the user.
        arguments: the leaves of its arguments.
        static: what else distinguishes programs.
        build: makes the program, and says which bodies it runs; gets what they may read.
    """
    is_traced = modes.state.watchers or any(isinstance(one._storage.owner.array, Tracer) for one in arguments)
    key = None if is_traced else (static, *map(_identify, functions), *_describe(arguments))
    for one in () if key is None else _find_stored(key):
        operands = one.operands.find(functions)
        if operands is not None:
            return Outcome(one.program, operands, one.program.run(operands, arguments))
    walk = Walk(functions, [])
    captured = list_captured(walk)
    arrays = [*[one.value for one in captured], *[place.value for place in walk.arrays.values()]]
    is_stored = key is not None and not any(isinstance(array, Tracer) for array in arrays)
    candidates = Candidates(walk) if is_stored else None
    program, bodies = build(captured)
    operands = [one.tensor for body in bodies for one in body.captured]
    outcome = Outcome(program, operands, program.run(operands, arguments))
    finder = None if candidates is None else make_finder(bodies, walk, candidates)
    if finder is not None:
        with _lock:
            _programs.add(key, _StoredProgram(program, finder))
    return outcome


def _find_stored(key: Hashable) -> Sequence[_StoredProgram]:
    with _lock:
        return tuple(_programs.list_programs(key))


def _identify(function: Callable[..., Any]) -> Hashable:
    """What all functions have in common that one program may serve. It keeps nothing of the user alive."""
    return weakref.ref(getattr(function, "__code__", type(function)))


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
