"""Random programs beside torch: ``python -m tests.soak.torch_programs --count 3000 --seed 1 --mode plain``.

A program has leaves that stay, settings of Python that change between its calls, and lines. Each line is run
by itself, so an error ends the line and not the program; what stays after it is compared too.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import oplib
from oplib.autograd.compiled_autograd import enable
from oplib.config import config
from tests import memory
from tests.documents import ROOT
from tests.xla_flags import add_flags

from .torch_comparison import KNOWN, Difference, Known, compare, describe, has_later_history
from .torch_lines import BINARY, DTYPES, SHAPES, UNARY, VIEWS, WRITES, make_values
from .torch_runs import Line, Program, Run, find_line

MODES = ["plain", "compiled backward", "jit"]
CALLS = 3
KINDS = ["unary", "view", "binary", "write"] * 4 + ["write", "function", "function", "op", "hook", "python"]
NAMES: dict[str, Sequence[str]] = {
    "unary": list(UNARY),
    "view": list(VIEWS),
    "binary": list(BINARY),
    "write": list(WRITES),
    "function": ["Doubled", "Sine", "Kept", "Marked", "Viewed", "Same"],
    "op": ["scale", "store", "bump"],
    "hook": ["double", "look", "in place", "retain", "node", "accumulate"],
    "python": ["rate", "branch", "count"],
    "region": ["no_grad", "enable_grad", "autocast", "checkpoint", "reentrant", "saved hooks", "inference"],
}
ENDINGS = ["backward", "backward", "twice", "grad", "second", "inputs", "none"]

REFUSED_IN_JIT = [
    "A different number of tensors was saved",  # the backward of what is returned is traced at the call
    "a hook was registered on",  # what outlives the call
    "from outside of the function",  # metadata, hooks and attributes of what outlives the call
    "reaches a node that was recorded outside",  # a leaf took a history in the call before
]

DETACHED = ("detach write", "store", "bump")
"""Lines that write through ``detach()``, which changes no history here."""

PLACED = ("set list", "set mask", "masked_fill_", "index_fill_")
"""Writes to places and masks. Torch lets expanded tensors through, and warns that it is deprecated."""

READ_LESS = (
    "std",
    "prod",
    "norm",
    "logsumexp",
    "gather",
    "nan_to_num",
    "copysign",
    "clamp",
    "huber",
    "cummax",
)
"""Lines whose gradient reads fewer operands and results here than torch saves."""

HAS_WRITTEN = "torch has written when it refuses"
"""A write to an inference tensor; its later lines take another value, or one of another shape."""

HELD = 3.0
"""GB from which compiled programs are dropped."""


def draw_line(numbers: random.Random, depth: int = 0) -> Line:
    first, second = numbers.randrange(60), numbers.randrange(60)
    if depth < 2 and numbers.random() < 0.13:
        inside = tuple(draw_line(numbers, depth + 1) for _ in range(numbers.randrange(1, 5)))
        return Line("region", numbers.choice(NAMES["region"]), first, second, inside)
    kind = numbers.choice(KINDS)
    return Line(kind, numbers.choice(NAMES[kind]), first, second)


def draw_settings(numbers: random.Random) -> list[tuple[float, bool, int]]:
    """Draws the settings of each call; a call may have those of another, whose program may then serve it."""
    drawn = [
        (0.5 + 0.25 * numbers.randrange(3), numbers.random() < 0.5, numbers.randrange(3)) for _ in range(2)
    ]
    return [numbers.choice(drawn) for _ in range(CALLS)]


def draw_program(numbers: random.Random) -> Program:
    """Draws a program."""
    data = numbers.choice(["plain", "plain", "ties", "special"])
    shapes = [(2, 3), numbers.choice(SHAPES), numbers.choice(SHAPES)]
    dtype = numbers.choice(DTYPES)
    dtypes = [dtype, dtype, numbers.choice(DTYPES) if numbers.random() < 0.3 else dtype]
    leaves = [
        (dtype, make_values(numbers, shape, data), numbers.random() < 0.7)
        for dtype, shape in zip(dtypes, shapes, strict=True)
    ]
    lines = tuple(draw_line(numbers) for _ in range(numbers.randrange(3, 14)))
    roots = [numbers.randrange(60) for _ in range(numbers.randrange(1, 3))]
    return Program(leaves, lines, numbers.choice(ENDINGS), roots, draw_settings(numbers))


# Running -------------------------------------------------------------------------------------------


def has_line(program: Program, names: Sequence[str]) -> bool:
    return any(f"'{name}'" in str(program.lines) for name in names)


def compare_errors(theirs: Run, mine: Run) -> None:
    """Raises Known or Difference for the first line that one library refuses.

    Later ones follow from it, so a known one among them excuses nothing.
    """

    def by_line(place: Any) -> Any:
        return isinstance(place, str), place

    places = sorted({*theirs.errors} ^ {*mine.errors}, key=by_line)
    for place in places[:1]:
        before = [text for one, text in theirs.errors.items() if by_line(one) < by_line(place)]
        if "inference tensor" in str(before):
            raise Known(HAS_WRITTEN)
        text = theirs.errors.get(place) or mine.errors[place]
        line, is_torch = find_line(mine.program, place), place in theirs.errors
        if is_torch and "modified by an inplace operation" in text and has_line(mine.program, READ_LESS):
            raise Known("a history saves what its gradient reads")
        if is_torch and has_line(mine.program, DETACHED) and "its base has been modified" in text:
            raise Known("a write through detach() changes no history")
        if is_torch and "a second time" in text and has_line(mine.program, ["reentrant"]):
            raise Known("torch passes on that there is no gradient, through freed nodes too")
        if not is_torch and "more than one element of the written-to" in text and line[1] in PLACED:
            raise Known("torch warns of a write to an expanded tensor")
        for known in KNOWN:
            if known in text:
                raise Known(known)
        raise Difference(
            f"error: {'torch' if is_torch else 'oplib'} refuses: {text[:90]}",
            f"at {place} {line}\n{text}",
        )


def run_calls(run: Run, mode: str) -> Iterator[Any]:
    """Yields what each call leaves."""
    step: Any = run.write()
    if run.is_pure:
        step = oplib.jit(step)
    for x in run.make_arguments():
        run.trace.clear()
        if mode == "compiled backward":
            with enable():
                values = step(x)
        else:
            values = step(x)
        yield describe(run, values)


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

    if mode != "jit":
        program = program._replace(settings=program.settings[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Run(torch, program)
        found = list(run_calls(theirs, "plain"))
        shaken = list(run_calls(Run(torch, shake(program)), "plain"))
        skipped: set[Any] = set()
        if mode == "jit":
            plain = Run(oplib, program)
            ours = iter(list(run_calls(plain, "plain")))  # errors of all calls are compared
            for one, moved in zip(found, shaken, strict=True):
                compare_call(theirs, plain, one, moved, ours)
            skipped = {*theirs.errors, *plain.errors}
        if skipped:
            theirs = Run(torch, program, skipped)
            found = list(run_calls(theirs, "plain"))
            if theirs.errors:
                return
        mine = Run(oplib, program, skipped, is_pure=mode == "jit")
        ours = run_calls(mine, mode)
        for one, moved in zip(found, shaken, strict=True):
            compare_call(theirs, mine, one, moved, ours, is_compiled=mode == "compiled backward")


def compare_call(
    theirs: Run, mine: Run, one: Any, moved: Any, ours: Iterator[Any], *, is_compiled: bool = False
) -> None:
    """Makes the next call, and raises Difference where it leaves something else than torch's."""
    try:
        other = next(ours)
    except Exception as error:
        for refused in REFUSED_IN_JIT:
            if refused in str(error):
                raise Known(refused) from error
        text = "".join(traceback.format_exception(error)[-3:])
        raise Difference(f"raises {type(error).__name__}: {str(error)[:60]}", text) from error
    compare_errors(theirs, mine)
    if "inference tensor" in str(theirs.errors):
        raise Known(HAS_WRITTEN)
    # A Function or op that is refused may have written; torch counts its mark_dirty too.
    refused = {find_line(mine.program, place)[0] for place in theirs.errors}
    left_out = ["version"] if refused & {"function", "op"} else []
    if mine.is_pure:
        left_out = ["version", "trace"]
    elif is_compiled:  # gradients of its own share no memory
        left_out.append("shares with")
        if "ending" in theirs.errors and one[0]["names"] != other[0]["names"]:
            raise Known("a compiled backward that is refused stores nothing")
    is_empty = not all(values.size for _, values, _ in mine.program.leaves)
    if is_empty and mine.program.ending == "second" and one[0]["names"] != other[0]["names"]:
        raise Known("an empty gradient that is a constant")
    if "requires_grad_" in str(mine.program.lines) and has_later_history(one, other):
        raise Known("a view has the history of what requires grad later")
    compare(one, other, moved, left_out=left_out, has_mask="nan_to_num" in str(mine.program.lines))


# Searching -----------------------------------------------------------------------------------------


def fails(program: Program, mode: str, known: Counter[str] | None = None) -> Difference | None:
    """Returns the difference that a program shows, and counts one that is known."""
    try:
        check_program(program, mode)
    except Difference as difference:
        return difference
    except Known as found:
        if known is not None:
            known[str(found)] += 1
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


class Search:
    """Counts of the programs of one mode."""

    def __init__(self, mode: str) -> None:
        self.mode, self.count, self.seconds = mode, 0, 0.0
        self.kinds: Counter[str] = Counter()
        self.known: Counter[str] = Counter()

    def check(self, seed: str, number: int, shown: int) -> None:
        start = time.process_time()
        program = draw_program(random.Random(f"{seed} {number}"))
        difference = fails(program, self.mode, self.known)
        self.count += 1
        self.seconds += time.process_time() - start
        if difference is not None:
            self.kinds[difference.kind] += 1
            sys.stdout.write(f"--- {self.mode} {seed} {number} {difference.kind}\n")
            if self.kinds[difference.kind] <= shown:
                small = shrink(program, self.mode, difference.kind)
                sys.stdout.write(f"{small}\n{fails(small, self.mode)}\n")

    def report(self) -> str:
        each = self.seconds / max(self.count, 1)
        differ, known = sum(self.kinds.values()), sum(self.known.values())
        return (
            f"{self.count} programs, {self.mode}, {each:.2f} CPU seconds each: "
            f"{differ} differ, {known} are known\n"
            f"{dict(self.kinds)}\n{dict(self.known)}\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100, help="programs in each mode")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--mode", choices=MODES, action="append", help="all unless told")
    parser.add_argument("--shrink", type=int, default=0, help="programs of each kind that are made small")
    options = parser.parse_args()
    os.environ["XLA_FLAGS"] = add_flags(os.environ.get("XLA_FLAGS", ""))
    config.compilation_cache = ROOT / ".pytest_cache" / "jax"
    searches = [Search(mode) for mode in options.mode or MODES]
    for number in range(options.first, options.first + options.count):
        for search in searches:
            search.check(f"{options.seed} {search.mode}", number, options.shrink)
        if number % 50 == 49:
            gc.collect()
            held = memory.read_resident() or 0
            sys.stdout.write(f"{held:.2f} GB\n{''.join(search.report() for search in searches)}")
            if held > HELD:
                memory.drop_compiled()
        sys.stdout.flush()
    sys.stdout.write("".join(search.report() for search in searches))


if __name__ == "__main__":
    main()
