"""Random programs beside torch: ``python -m tests.soak.torch_programs --count 3000 --seed 1 --mode plain``.

A program has leaves that stay, settings of Python that change between its calls, and lines. Each line is run
by itself, so an error ends the line and not the program; what stays after it is compared too.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import random
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

import oplib
from oplib.autograd.compiled_autograd import enable

from .torch_comparison import KNOWN, Difference, Known, compare, describe, read_version
from .torch_lines import (
    BINARY,
    DTYPES,
    SHAPES,
    UNARY,
    VIEWS,
    WRITES,
    make_functions,
    make_hooks,
    make_ops,
    make_values,
)

MODES = ["plain", "compiled backward", "jit"]
CALLS = 3
KINDS = ["unary", "view", "binary", "write"] * 4 + ["write", "function", "function", "op", "hook", "python"]
REGIONS = ["no_grad", "enable_grad", "autocast", "checkpoint", "reentrant", "saved hooks", "inference"]
FUNCTIONS = ["Doubled", "Sine", "Kept", "Marked", "Viewed", "Same"]
OPS = ["scale", "store", "bump"]
HOOKS = ["double", "look", "in place", "retain", "node", "accumulate"]
PYTHON = ["rate", "branch", "count"]
ENDINGS = ["backward", "backward", "twice", "grad", "second", "inputs", "none"]
SAVED_HOOKS = ["numpy", "disk", "clone", "same", "bfloat16"]


REFUSED_IN_JIT = [
    "from outside of the function",  # metadata, hooks and attributes of what outlives the call
    "was changed while the function was traced",  # the list of a hook
    "base or another view of its base has been modified",  # it reads the history of a view that it returns
]


class Line(NamedTuple):
    """One instruction: its kind, its name, the values it takes, and the lines inside of a region."""

    kind: str
    name: str
    a: int
    b: int
    inside: tuple[Line, ...] = ()


class Program(NamedTuple):
    """A program."""

    leaves: list[tuple[str, np.ndarray, bool]]
    lines: list[Line]
    ending: str
    roots: list[int]


def draw_line(numbers: random.Random, depth: int = 0) -> Line:
    if depth < 2 and numbers.random() < 0.13:
        name = numbers.choice(REGIONS)
        inside = tuple(draw_line(numbers, depth + 1) for _ in range(numbers.randrange(1, 5)))
        return Line("region", name, numbers.randrange(60), numbers.randrange(60), inside)
    kind = numbers.choice(KINDS)
    tables: dict[str, Sequence[str]] = {
        "unary": list(UNARY),
        "view": list(VIEWS),
        "binary": list(BINARY),
        "write": list(WRITES),
        "function": FUNCTIONS,
        "op": OPS,
        "hook": HOOKS,
        "python": PYTHON,
    }
    return Line(kind, numbers.choice(tables[kind]), numbers.randrange(60), numbers.randrange(60))


def draw_program(numbers: random.Random) -> Program:
    """Draws a program."""
    data = numbers.choice(["plain", "plain", "ties", "special"])
    shapes = [(2, 3), numbers.choice(SHAPES), numbers.choice(SHAPES)]
    dtypes = [numbers.choice(DTYPES)] * 2 + [numbers.choice(DTYPES)]
    leaves = [
        (dtype, make_values(numbers, shape, data), numbers.random() < 0.7)
        for dtype, shape in zip(dtypes, shapes, strict=True)
    ]
    lines = [draw_line(numbers) for _ in range(numbers.randrange(3, 14))]
    roots = [numbers.randrange(60) for _ in range(numbers.randrange(1, 3))]
    return Program(leaves, lines, numbers.choice(ENDINGS), roots)


# Running -------------------------------------------------------------------------------------------


@cache
def make_tables(lib: Any) -> dict[str, dict[str, Any]]:
    """Returns the Functions, ops and hooks of a library."""
    return {"function": make_functions(lib), "op": make_ops(lib), "saved": make_hooks(lib)}


class Run:
    """A program on one library: its leaves, its settings, and what its lines gave."""

    def __init__(self, lib: Any, program: Program, skipped: Sequence[Any] = ()) -> None:
        self.lib, self.program, self.skipped = lib, program, frozenset(skipped)
        self.is_pure = False
        self.versions: dict[int, tuple[Any, int]] = {}
        self.errors: dict[Any, str] = {}
        self.trace: list[Any] = []
        self.settings = SimpleNamespace(rate=0.5, flag=True, count=0)
        self.leaves = [
            lib.tensor(values).to(getattr(lib, dtype)).requires_grad_(needs)
            for dtype, values, needs in program.leaves
        ]
        self.mine = make_tables(lib)

    def call(self, x: Any) -> list[Any]:
        """Runs the lines and the ending on a Tensor, and returns all values."""
        self.pool = [*self.leaves, x, *[leaf * 1 for leaf in self.leaves]]
        self.given: Any = None
        self.run_lines(self.program.lines, ())
        self.attempt("ending", self.differentiate)
        return [*self.pool[len(self.leaves) :], *(self.given or ())]

    def run_lines(self, lines: Sequence[Line], place: tuple[int, ...]) -> None:
        for number, line in enumerate(lines):
            here = (*place, number)
            if here not in self.skipped:
                self.attempt(here, lambda line=line, here=here: self.run_line(line, here))

    def attempt(self, place: Any, work: Any) -> None:
        """Runs a piece, and notes its error."""
        if place in self.skipped:
            return
        if self.is_pure:
            work()
            return
        try:
            work()
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
            self.errors[place] = f"{type(error).__name__}: {str(error)[:400]}"

    def pick(self, place: int) -> Any:
        return self.pool[place % len(self.pool)]

    def pick_beside(self, a: Any, place: int) -> Any:
        """Returns a value that broadcasts with another one, if there is any."""
        for step in range(len(self.pool)):
            one = self.pool[(place + step) % len(self.pool)]
            if all(x == y or 1 in (x, y) for x, y in zip(one.shape[::-1], a.shape[::-1], strict=False)):
                return one
        return a

    def run_line(self, line: Line, place: tuple[int, ...]) -> None:
        a = self.pick(line.a)
        b = self.pick_beside(a, line.b)
        given: Any = ()
        if line.kind == "unary":
            given = UNARY[line.name](self.lib, a)
        elif line.kind == "view":
            given = VIEWS[line.name](self.lib, a)
        elif line.kind == "binary":
            given = BINARY[line.name](self.lib, a, b)
        elif line.kind == "write":
            WRITES[line.name](self.lib, a, b)
        elif line.kind in ("function", "op"):
            given = self.mine[line.kind][line.name](self.lib, a, b)
        elif line.kind == "python":
            given = self.run_python(line.name, a)
        elif line.kind == "hook":
            self.run_hook(line.name, a, place)
        else:
            self.run_region(line, place)
        if given is not None:
            self.pool.extend(given if isinstance(given, tuple) else [given])
        self.note_versions()

    def note_versions(self) -> None:
        """Keeps the first version of each value: torch's kernels write into what they return."""
        for one in self.pool:
            if id(one) not in self.versions:
                self.versions[id(one)] = (one, read_version(one))

    def run_python(self, name: str, a: Any) -> Any:
        if name == "rate":
            return a * self.settings.rate
        if name == "branch":
            return a.sin() if self.settings.flag else a.tanh()
        return a + self.settings.count

    def run_hook(self, name: str, a: Any, place: Any) -> None:
        if name == "retain":
            a.retain_grad()
        elif name == "node":
            if a.grad_fn is not None:
                a.grad_fn.register_hook(lambda results, grads: self.trace.append(("node", place)))
        elif name == "accumulate":
            a.register_post_accumulate_grad_hook(lambda leaf: (leaf.grad.mul_(0.5), None)[1])
        else:
            hooks = {
                "double": lambda grad: grad * 2,
                "look": lambda grad: self.trace.append(("hook", place)),
                "in place": lambda grad: grad.clone().mul_(0.5),
            }
            a.register_hook(hooks[name])

    def run_region(self, line: Line, place: tuple[int, ...]) -> None:
        lib, name = self.lib, line.name
        if name in ("checkpoint", "reentrant"):
            self.run_checkpoint(line, place)
            return
        if name == "saved hooks":
            kind = SAVED_HOOKS[line.a % (len(SAVED_HOOKS))]
            if self.is_pure and kind in ("numpy", "disk"):
                kind = "clone"
            block = lib.autograd.graph.saved_tensors_hooks(*self.mine["saved"][kind])
        elif name == "autocast":
            block = lib.autocast("cpu", getattr(lib, ["bfloat16", "float16"][line.a % 2]))
        else:
            modes = {"no_grad": lib.no_grad, "enable_grad": lib.enable_grad, "inference": lib.inference_mode}
            block = modes[name]()
        if lib.is_inference_mode_enabled() and name == "enable_grad":
            block = contextlib.nullcontext()  # torch asks for nothing there
        with block:
            self.run_lines(line.inside, place)

    def run_checkpoint(self, line: Line, place: tuple[int, ...]) -> None:
        a = self.pick(line.a)
        b = self.pick_beside(a, line.b)
        outside = self.pool

        def run(a: Any, b: Any) -> Any:
            self.pool = [a, b]
            try:
                for number, one in enumerate(line.inside):
                    if (*place, number) not in self.skipped:  # a line of a region has a place of its own
                        here = (*place, number)
                        self.attempt(here, lambda one=one, here=here: self.run_line(one, here))
                return self.pool[-1] * 1
            finally:
                self.pool = outside

        checkpoint = self.lib.utils.checkpoint.checkpoint
        outside.append(checkpoint(run, a, b, use_reentrant=line.name == "reentrant"))

    def differentiate(self) -> None:
        """Differentiates the roots."""
        lib, ending = self.lib, self.program.ending
        roots = [self.pool[-1 - place % len(self.pool)] for place in self.program.roots]
        roots = [root for root in roots if root.requires_grad]
        if ending == "none" or not roots:
            return
        starts = [lib.ones_like(root) * 0.5 for root in roots]
        leaves = [leaf for leaf in self.leaves if leaf.requires_grad]
        if ending == "backward":
            lib.autograd.backward(roots, starts)
        elif ending == "twice":
            lib.autograd.backward(roots, starts, retain_graph=True)
            lib.autograd.backward(roots, starts)
        elif ending == "inputs":
            lib.autograd.backward(roots, starts, inputs=leaves[:1])
        elif ending == "grad":
            self.given = lib.autograd.grad(roots, leaves, starts, allow_unused=True)
        else:
            first = lib.autograd.grad(roots, leaves, starts, create_graph=True, allow_unused=True)
            total = [(one * one).sum() for one in first if one is not None and one.requires_grad]
            second = lib.autograd.grad(total, leaves, allow_unused=True) if total else ()
            self.given = (*first, *second)

    def change(self, number: int) -> None:
        """Changes the settings between calls."""
        self.settings.rate = 0.5 + 0.25 * number
        self.settings.flag = number % 2 == 1
        self.settings.count = number


def find_line(program: Program, place: Any) -> Any:
    if isinstance(place, str):
        return program.ending, program.roots
    lines: Sequence[Line] = program.lines
    line: Any = None
    for number in place:
        line = lines[number]
        lines = line.inside
    return line[:4]


def compare_errors(theirs: Run, mine: Run) -> None:
    """Raises Difference for a line that one library refuses, or Known if a known one is among them."""
    places = sorted({*theirs.errors} ^ {*mine.errors}, key=str)
    texts = [theirs.errors.get(place) or mine.errors[place] for place in places]
    if any(known in text for known in KNOWN for text in texts):
        raise Known
    for place, text in zip(places, texts, strict=True):
        raise Difference(
            f"error: {'torch' if place in theirs.errors else 'oplib'} refuses: {text[:90]}",
            f"at {place} {find_line(mine.program, place)}\n{text}",
        )


def run_calls(run: Run, mode: str) -> Iterator[Any]:
    """Yields what each call leaves."""
    step: Any = run.call
    if mode == "jit":
        run.is_pure = True
        step = oplib.jit(run.call)
    for number in range(CALLS if mode in ("jit", "calls") else 1):
        x = run.lib.tensor(np.array([[0.25, -0.5, 0.75], [0.5, 0.5, -1.0]], np.float32) + number)
        run.trace.clear()
        if mode == "compiled backward":
            with enable():
                values = step(x)
        else:
            values = step(x)
        yield describe(run, values)
        run.change(number)


def shake(program: Program) -> Program:
    """Returns the program with values that differ by what rounding makes of them; ties stay ties."""
    leaves = [
        (dtype, values * np.float32(1 + (1e-5 if dtype == "float32" else 1e-2)), needs)
        for dtype, values, needs in program.leaves
    ]
    return program._replace(leaves=leaves)


def check_program(program: Program, mode: str) -> None:
    """Raises Difference where the run of a program differs from torch's."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Run(torch, program)
        calls = "calls" if mode == "jit" else "plain"
        found = list(run_calls(theirs, calls))
        shaken = list(run_calls(Run(torch, shake(program)), calls))
        if mode == "jit":
            plain = Run(oplib, program)
            list(run_calls(plain, calls))
            skipped = {*theirs.errors, *plain.errors}
            if skipped:
                theirs = Run(torch, program, skipped)
                found = list(run_calls(theirs, calls))
                if theirs.errors:
                    return
            mine = Run(oplib, program, skipped)
        else:
            mine = Run(oplib, program)
        ours = run_calls(mine, mode)
        for one, moved in zip(found, shaken, strict=True):
            try:
                other = next(ours)
            except Exception as error:
                if any(refused in str(error) for refused in REFUSED_IN_JIT):
                    raise Known from error
                text = "".join(traceback.format_exception(error)[-3:])
                raise Difference(f"raises {type(error).__name__}: {str(error)[:60]}", text) from error
            compare_errors(theirs, mine)
            if "inference tensor" in str(theirs.errors):
                return  # torch has written when it refuses
            # A Function or op that is refused may have written; torch counts its mark_dirty too.
            refused = {find_line(program, place)[0] for place in theirs.errors}
            left_out = ["version"] if refused & {"function", "op"} else []
            if mode == "jit":
                left_out = ["version", "trace"]
            compare(one, other, moved, left_out=left_out)


# Searching -----------------------------------------------------------------------------------------


def fails(program: Program, mode: str) -> Difference | None:
    try:
        check_program(program, mode)
    except Difference as difference:
        return difference
    except Known:
        return None
    return None


def shrink(program: Program, mode: str, kind: str) -> Program:
    """Returns a program with as few lines as still show the same kind of difference."""
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(program.lines))):
            lines = program.lines[:number] + program.lines[number + 1 :]
            found = fails(program._replace(lines=lines), mode)
            if found is not None and found.kind.split(":", 1)[0] == kind.split(":", 1)[0]:
                program, changed = program._replace(lines=lines), True
    return program


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--mode", choices=MODES, default="plain")
    parser.add_argument("--shrink", type=int, default=0)
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    for number in range(options.first, options.first + options.count):
        program = draw_program(random.Random(f"{options.seed} {number}"))
        difference = fails(program, options.mode)
        if difference is not None:
            kinds[difference.kind] += 1
            sys.stdout.write(f"--- {number} {difference.kind}\n")
            if kinds[difference.kind] <= options.shrink:
                small = shrink(program, options.mode, difference.kind)
                sys.stdout.write(f"{small}\n{fails(small, options.mode)}\n")
            sys.stdout.flush()
        if number % 200 == 199:
            jax.clear_caches()
            gc.collect()
    sys.stdout.write(f"{options.count} programs, {options.mode}: {sum(kinds.values())} differ\n{kinds}\n")


if __name__ == "__main__":
    main()
