"""Random programs of ``oplib.jit``: drawn, run in several ways, and compared."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import oplib
from oplib.autograd.compiled_autograd import enable
from oplib.errors import CompilationWarning, TracingError
from tests.autograd.machines import BINARY, IN_PLACE, UNARY, VIEWS, Instruction
from tests.counts import counts

from .random_worlds import BETWEEN, CONTAINERS, METADATA, REGIONS, STATE, Step, World, make_tensor

CALLS = 3
LARGE = 1e4  # beyond this, rounding would be all that a comparison sees
MOST_LINES = 10
KINDS = {
    "unary": UNARY,
    "binary": BINARY,
    "detach": UNARY,
    "no_grad": UNARY,
    "in_place": IN_PLACE,
    "view": VIEWS,
    "state": STATE,
    "container": CONTAINERS,
    "region": REGIONS,
    "metadata": METADATA,
}
ENDINGS = ["backward", "grad", "live", "kept", "no grad"]


class Program(NamedTuple):
    """A program.

    Attributes:
        lines: the instructions of a call.
        roots: the indices of the values that are differentiated.
        ending: how they are differentiated, one of ``ENDINGS``.
        between: keys of ``BETWEEN``, one after each call.
        unread: the number of calls before each call whose effects are read.
        has_past: whether it reads and writes views that have a history before the call.
    """

    lines: list[Instruction]
    roots: list[int]
    ending: str
    between: list[str]
    unread: int = 0
    has_past: bool = False

    def call(self, world: World, x: Any, given: Any) -> Any:
        """Runs one call: the lines, and the derivative of the roots."""
        step = Step(world, x, given, has_past=self.has_past)
        if self.ending == "no grad":
            with oplib.no_grad():
                step.run(self.lines)
                return step.values[-2:]
        step.run(self.lines)
        return self.differentiate(step)

    def differentiate(self, step: Step) -> Any:
        """Differentiates the roots, and returns what the call returns."""
        roots = step.roots(self.roots)
        if self.ending == "live":
            return roots
        starts = make_starts(roots)
        if self.ending == "grad":
            return oplib.autograd.grad(roots, step.leaves, starts, allow_unused=True)
        oplib.autograd.backward(roots, starts, retain_graph=self.ending == "kept")
        return roots if self.ending == "kept" else [root.detach() for root in roots]


def draw_program(numbers: random.Random) -> Program:
    """Draws a program."""
    lines: list[Instruction] = []
    for _ in range(numbers.randrange(1, MOST_LINES)):
        kind = numbers.choice(list(KINDS))
        name = numbers.choice(list(KINDS[kind]))
        hook = numbers.choice([None, None, None, 2.0, -1.0, 0.5])
        lines.append(Instruction(kind, name, numbers.randrange(30), numbers.randrange(30), hook))
    return Program(
        lines,
        [numbers.randrange(30) for _ in range(numbers.randrange(1, 4))],
        numbers.choice(ENDINGS),
        [numbers.choice(list(BETWEEN)) for _ in range(numbers.randrange(1, 4))],
        numbers.choice([0, 0, 1, 2]),
        numbers.choice([False, False, True]),
    )


def make_starts(roots: Sequence[Any]) -> list[Any]:
    """Returns the gradients with which a backward begins."""
    return [oplib.ones_like(root) for root in roots]


def differentiate(world: World, results: Sequence[Any], *, compiled: bool) -> None:
    """Runs a backward from all results, and Tensors of the world, that require grad."""
    live = [one for one in (*results, *world.pasts) if one is not None and one.requires_grad]
    if live:
        with enable() if compiled else contextlib.nullcontext():
            oplib.autograd.backward(live, make_starts(live))


def describe(world: World, results: Sequence[Any], before: Sequence[Any]) -> tuple[dict[str, Any], Any]:
    """Returns facts about the Tensors and Generators that a call leaves, and the arrays of the Tensors."""
    note = getattr(world.buffer, "note", None)
    named = {"note": note, "buffer": world.buffer, "row": world.row, "kept": world.holder.kept}
    named |= {f"leaf {number}": leaf for number, leaf in enumerate(world.leaves)}
    named |= {f"grad {number}": leaf.grad for number, leaf in enumerate(world.leaves)}
    named |= {f"past {number}": one for number, one in enumerate(world.pasts)}
    named |= {"origin": world.origin, "grad of origin": world.origin.grad}
    named |= {f"result {number}": one for number, one in enumerate(results)}
    tensors = {name: one for name, one in named.items() if one is not None}
    objects: dict[int, str] = {}
    owners = {id(one._storage.owner): name for name, one in reversed(tensors.items())}
    facts: dict[str, Any] = {
        name: (
            objects.setdefault(id(one), name),
            owners[id(one._storage.owner)],
            one._version,
            one.requires_grad,
            one.is_leaf,
            one.shape,
        )
        for name, one in tensors.items()
    }
    facts["grads"] = [
        leaf.grad is not None and leaf.grad is old for leaf, old in zip(world.leaves, before, strict=True)
    ]
    facts["generators"] = [one[::2] for one in (world.generator.get_state(), oplib.get_rng_state())]
    return facts, {name: one.detach().numpy().copy() for name, one in tensors.items()}


def run(program: Program, *, compiled: bool, compiled_backward: bool = False) -> list[Any]:
    """Returns what :func:`describe` returns after each call and backward, or the error that ended the run.

    Args:
        program: the program.
        compiled: whether each call runs compiled.
        compiled_backward: whether each backward outside of a call runs compiled.
    """
    world = World()
    found: list[Any] = []
    oplib.manual_seed(5)

    def call(x: Any, given: Any) -> Any:
        return program.call(world, x, given)

    step: Any = oplib.jit(call) if compiled else call
    try:
        for number in range(CALLS):
            for _ in range(program.unread):
                differentiate(world, step(make_tensor(5 + number), world.given), compiled=compiled_backward)
                world.end_histories()
            before = [leaf.grad for leaf in world.leaves]
            results = step(make_tensor(5 + number), world.given)
            found.append(describe(world, results, before))
            differentiate(world, results, compiled=compiled_backward)
            found.append(describe(world, results, before))
            world.end_histories()
            BETWEEN[program.between[number % len(program.between)]](world)
    except RuntimeError as error:
        found.append(error)
    if compiled:
        counts["compiled programs"] += step.compilations
    return found


def compare(theirs: Sequence[Any], mine: Sequence[Any]) -> None:
    """Raises AssertionError where a compiled run differs from the plain one."""
    for place, (one, other) in enumerate(zip(theirs, mine, strict=False)):
        if isinstance(other, TracingError) and "recorded outside of it" in str(other):
            return  # a backward inside that reaches a history from outside is refused
        if isinstance(one, Exception) or isinstance(other, Exception):
            assert isinstance(one, Exception) == isinstance(other, Exception), (place, one, other)
            return
        for name, fact in one[0].items():
            assert (place, name, other[0].get(name)) == (place, name, fact)
        assert other[0].keys() == one[0].keys()
        for name, array in one[1].items():
            np.testing.assert_allclose(other[1][name], array, rtol=1e-8, atol=1e-8, err_msg=f"{place} {name}")
    assert len(theirs) == len(mine)


def is_comparable(found: Sequence[Any]) -> bool:
    """Whether all numbers of a run are finite, and so small that rounding does not hide a difference."""
    arrays = [array for one in found if isinstance(one, tuple) for array in one[1].values()]
    return all(np.isfinite(array).all() and (np.abs(array) < LARGE).all() for array in arrays)


def check_program(program: Program) -> None:
    """Raises AssertionError, with the program, if a compiled run differs from the plain one."""
    plain = run(program, compiled=False)
    if not is_comparable(plain):
        return
    counts["random programs of oplib.jit"] += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompilationWarning)  # state may differ in each call
            compare(plain, run(program, compiled=True))
            if program.ending in ("live", "kept") or program.has_past:
                compare(plain, run(program, compiled=True, compiled_backward=True))
    except BaseException as error:
        error.add_note(f"the program: {program!r}")
        raise
