"""Calls of control flow functions: how their program is found, or made, and run on Tensors.

Forward mode runs a program on pairs of values and their tangents. Inside of it the Tensors carry their
tangents as they do anywhere, so the rules of users are found.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import jax

from oplib.autograd.array_functions.array_function import ArrayFunction, has_gradient
from oplib.autograd.forward_ad import make_dual, unpack_dual
from oplib.autograd.recording.formula_node import call_recorded, keep_tangents
from oplib.autograd.tangents import carries_tangents, find_tangent, run_without_tangents, set_tangent
from oplib.errors import OplibError, TracingError, describe
from oplib.library.kernels.tracing import any_traced
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.pytree import tree_flatten, tree_unflatten
from oplib.tensor import Storage, Tensor, zeros_like
from oplib.tensor.devices.device import is_abstract
from oplib.tensor.methods.copying import users_attributes
from oplib.tensor.storage.cut import cuts_results
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.entries import restore_entry
from oplib.transforms.tracing.paths import CapturedPath, Walk
from oplib.transforms.tracing.program_table import ProgramTable, read_program_settings
from oplib.transforms.tracing.python_changes import refuse_changes
from oplib.transforms.tracing.reader import Reader
from oplib.transforms.tracing.unrepeatable import refuse_unrepeatable

from .body import Body
from .body_region import Captured, list_captured
from .leaves import LeafLayout, build_trees, share


class Outcome(NamedTuple):
    """The result of a program.

    Attributes:
        layouts: of the result.
        operands: what its bodies have captured, and the leaves of its arguments.
        results: the leaves of the result.
    """

    layouts: tuple[LeafLayout, ...]
    operands: Sequence[Tensor]
    results: list[Tensor]

    def build(self) -> list[Any]:
        """Returns the trees of the result."""
        return build_trees(self.layouts, self.results)


class FlowProgram(NamedTuple):
    """A call of control flow as a function of arrays.

    Attributes:
        function: ``(*captured, *arguments) -> results``.
        layouts: of the result, which may be several trees.
        requires_grad: for each leaf of the result, whether the tape would have a history for it.
    """

    function: ArrayFunction
    layouts: tuple[LeafLayout, ...]
    requires_grad: Sequence[bool]

    def run(self, operands: Sequence[Tensor]) -> Outcome:
        """Calls it, recorded as one node."""
        results = list(run_without_tangents(call_recorded, self.function, operands))
        if cuts_results(modes.state):
            results = [result.detach() for result in results]
        for result, flag in zip(results, self.requires_grad, strict=True):
            if not flag and result._requires_grad:
                result._requires_grad, result._grad_fn = False, None
        return Outcome(self.layouts, operands, results)


Builder = Callable[[Sequence[Captured]], tuple[FlowProgram, Sequence[Body]]]


class StoredProgram:
    """A program to be used again, with the ways to its operands. It holds objects of the user weakly."""

    def __init__(self, program: FlowProgram, captured: Sequence[Captured], candidates: Candidates) -> None:
        self.program = program
        paths = [capture.path for capture in captured if capture.path is not None]
        self._takes = list(map(_make_take, captured))
        self._read = Reader("control flow", paths, (), candidates).read
        self._expected = _describe_operands([path.value for path in paths])

    def find(self, functions: Sequence[AnyFunction]) -> list[Tensor] | None:
        """Returns the operands of a call with these functions; None if the program does not serve it."""
        values = self._read(functions, ())
        if isinstance(values, str) or _describe_operands(values[0]) != self._expected:
            return None
        objects = iter(values[0])
        return [take(objects) for take in self._takes]


def _make_take(captured: Captured) -> Callable[[Iterator[Any]], Tensor]:
    """Returns what takes an operand from the objects that a reader has found."""
    if captured.path is None:
        kept = captured.tensor
        return lambda _: kept
    if captured.owner is not None:
        return next
    if captured.storage is not None:
        return lambda objects: share(next(objects)._storage.owner)
    return lambda objects: share(Storage(next(objects)))


def _describe_operands(values: Sequence[Any]) -> list[Hashable] | None:
    """Describes the Tensors and arrays that a program is compiled for; None where one of them is traced."""
    described: list[Hashable] = []
    owners: dict[int, int] = {}  # Tensors that share memory have one number
    for value in values:
        array = value
        if isinstance(value, Tensor):
            storage, owner = value._storage, value._storage.owner
            array = storage.array  # a view is read here, outside of the trace
            described += [type(value), value._requires_grad, owners.setdefault(id(owner), len(owners))]
            if storage is not owner:
                described.append(jax.typeof(owner.array))
        if is_abstract(array):
            return None
        described.append(jax.typeof(array))
    return described


_programs: ProgramTable[StoredProgram] = ProgramTable()
_lock = threading.RLock()  # of the table


def run_program(
    functions: Sequence[AnyFunction],
    arguments: Sequence[Tensor],
    static: tuple[Hashable, ...],
    build: Builder,
) -> Outcome:
    """Runs a call of control flow, by a program that has been made for such a call, or a new one.

    Args:
        functions: of the user.
        arguments: the leaves of its arguments.
        static: the name of the function of oplib, and the other static facts that distinguish programs.
        build: makes the program and its bodies.
    """
    state = modes.state
    is_traced = (
        state.watchers or state.hook_pairs or any_traced(tensor._storage.owner.array for tensor in arguments)
    )
    types = tuple([(jax.typeof(tensor._storage.array), tensor._requires_grad) for tensor in arguments])
    key = None if is_traced else (static, *map(_identify, functions), types, read_program_settings())
    with _lock:
        programs = _programs.by_key.get(key, [])
        _programs.note_use(programs)
        stored = tuple(programs)
    for entry in stored:
        operands = entry.find(functions)
        if operands is not None:
            return entry.program.run([*operands, *arguments])
    program, bodies, candidates = _trace(static[0], functions, build, is_stored=key is not None)
    read = [capture for body in bodies for capture in body.captured]
    outcome = program.run([*[capture.tensor for capture in read], *arguments])
    # Later calls must find each Tensor. An array without a storage is a constant of the trace.
    if candidates is not None and all(capture.path or capture.storage is None for capture in read):
        with _lock:
            _programs.add(key, StoredProgram(program, read, candidates))
    return outcome


def _trace(
    name: Hashable,
    functions: Sequence[AnyFunction],
    build: Builder,
    *,
    is_stored: bool,
    is_second: bool = False,
) -> tuple[FlowProgram, Sequence[Body], Candidates | None]:
    """Makes a program, with the candidates if it may be stored.

    Bodies that have changed what they read, such as a cache, are traced a second time. That trace has to
    change nothing, and to give the same programs.
    """
    walk = Walk(functions, [])
    captured = list_captured(walk)
    is_stored = is_stored and not any_traced(capture.value for capture in captured)
    candidates = Candidates(walk) if is_stored else None
    known = set[Any]() if candidates is None else candidates.names.known

    def settle() -> bool:
        nonlocal made
        try:
            again = _trace(name, functions, build, is_stored=True, is_second=True)
        except OplibError:
            return False
        is_settled = all(map(Body.equals, made[1], again[1]))
        made = again
        return is_settled

    changes = contextlib.nullcontext()
    if candidates is not None:
        changes = refuse_changes(name, candidates, None if is_second else settle)
    with changes, refuse_unrepeatable(name, walk.stateful, known), _refuse_kept(name, walk):
        made = (*build(captured), candidates)
    return made


@contextlib.contextmanager
def _refuse_kept(name: Hashable, walk: Walk) -> Generator[None]:
    """Raises if a body keeps a value of its trace as an attribute of a Tensor that it captures."""
    before = [(path, users_attributes(path.value)) for path in walk.tensors.values()]
    kept: list[tuple[CapturedPath, str, Any]] = []
    try:
        yield
    finally:
        for path, attributes in before:
            now = users_attributes(path.value)
            changed = [key for key in now if now[key] is not attributes.get(key)]
            kept += [(path, key, now[key]) for key in changed if _holds_traced(now[key], walk)]
        for path, key, _ in kept:
            restore_entry(path.value, key, dict(before)[path])
    if kept:
        path, key, value = kept[0]
        raise TracingError(
            f"{name}: the function keeps a value of its trace as an attribute of a Tensor that it captures. "
            f"Got {describe(value)} for {path.name}.{key}. Return the value, and assign it after the call."
        )


def _holds_traced(value: Any, walk: Walk) -> bool:
    leaves = [leaf for leaf in tree_flatten(value)[0] if id(leaf) not in walk.tensors]
    return any_traced(leaf._storage.owner.array if isinstance(leaf, Tensor) else leaf for leaf in leaves)


def _identify(function: AnyFunction) -> Hashable:
    """Returns a key that all functions share which one program may serve. It keeps no object of the user."""
    return weakref.ref(getattr(function, "__code__", type(function)))


Pair = tuple[Any, list[Tensor]]


def split_dual(tree: Any) -> Pair:
    """Takes the tangents off a tree: the tree without them, and one for each leaf that can have one."""
    leaves, spec = tree_flatten(tree)
    tangents: list[Tensor] = []
    for index, leaf in enumerate(leaves):
        if _is_floating(leaf):
            value, tangent = unpack_dual(leaf)
            leaves[index] = value
            tangents.append(zeros_like(value) if tangent is None else tangent)
    return tree_unflatten(leaves, spec), tangents


def join_dual(pair: Pair) -> Any:
    """Puts tangents on the leaves of a tree again."""
    tree, tangents = pair
    leaves, spec = tree_flatten(tree)
    rest = iter(tangents)
    return tree_unflatten(
        [make_dual(leaf, next(rest)) if _is_floating(leaf) else leaf for leaf in leaves], spec
    )


def _is_floating(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and has_gradient(leaf.dtype)


def call_dual(function: AnyFunction, *pairs: Pair, several: bool = False) -> Any:
    """Calls a function of trees for pairs of a tree and its tangents. It returns a tree, or several."""
    results = function(*map(join_dual, pairs))
    return tuple(map(split_dual, results)) if several else split_dual(results)


def run_with_tangents(run: Callable[[], Outcome], run_dual: Callable[[], Outcome]) -> list[Any]:
    """Runs control flow on values, and where tangents reach it again on pairs of values and their tangents.

    Each tree of the second result is a pair. The node keeps the tangents of its operands.
    """
    outcome = run_without_tangents(run)
    if carries_tangents() and any(find_tangent(tensor) is not None for tensor in outcome.operands):
        tangents = iter([tangent for _, own in run_dual().build() for tangent in own])
        for result in outcome.results:
            if _is_floating(result):
                set_tangent(result, next(tangents))
        keep_tangents(outcome.operands, outcome.results)
    return outcome.build()
