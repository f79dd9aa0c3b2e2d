"""Random programs: their lines, their leaves, and how a library runs them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from .torch_comparison import read_version
from .torch_lines import BINARY, UNARY, VIEWS, WRITES, make_functions, make_hooks, make_ops

SAVED_HOOKS = ["numpy", "disk", "clone", "same", "bfloat16"]

TAKEN = {(), (1,), (3,), (6,), (0,), (2, 3), (3, 2), (3, 1), (0, 3), (1, 2, 3)}
"""Shapes that later lines take. Values of others are compared only: each shape compiles each op anew."""

Step = Callable[["Pool"], None]


class Line(NamedTuple):
    """One instruction: its kind, its name, the values it takes, and the lines inside of a region."""

    kind: str
    name: str
    a: int
    b: int
    inside: tuple[Line, ...] = ()


class Program(NamedTuple):
    """A program; each of its calls has settings of Python of its own."""

    leaves: list[tuple[str, np.ndarray, bool]]
    lines: tuple[Line, ...]
    ending: str
    roots: list[int]
    settings: list[tuple[float, bool, int]]


class Pool:
    """The values that the lines of one call take and give."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)
        self.others: list[Any] = []
        self.given: list[Any] = []

    def pick(self, place: int) -> Any:
        return self.values[place % len(self.values)]

    def pick_beside(self, a: Any, place: int) -> Any:
        """Returns a value that broadcasts with another one, if there is any."""
        for step in range(len(self.values)):
            one = self.values[(place + step) % len(self.values)]
            if all(x == y or 1 in (x, y) for x, y in zip(one.shape[::-1], a.shape[::-1], strict=False)):
                return one
        return a

    def add(self, given: Any) -> None:
        for one in given if isinstance(given, tuple) else () if given is None else (given,):
            (self.values if tuple(one.shape) in TAKEN else self.others).append(one)


@cache
def make_tables(lib: Any) -> dict[str, dict[str, Any]]:
    """Returns what lines name, of a library."""
    return {
        "unary": {name: lambda lib, a, b, work=work: work(lib, a) for name, work in UNARY.items()},
        "view": {name: lambda lib, a, b, work=work: work(lib, a) for name, work in VIEWS.items()},
        "binary": BINARY,
        "write": {
            name: lambda lib, a, b, work=work: (work(lib, a, b), None)[1] for name, work in WRITES.items()
        },
        "function": make_functions(lib),
        "op": make_ops(lib),
        "saved": make_hooks(lib),
    }


def find_line(program: Program, place: Any) -> Any:
    if isinstance(place, str):
        return program.ending, program.roots
    lines: Sequence[Line] = program.lines
    line: Any = None
    for number in place:
        line = lines[number]
        lines = line.inside
    return line[:4]


def run_steps(steps: Sequence[tuple[Any, Step]], pool: Pool) -> None:
    """Runs steps, none of which may fail."""
    for _, step in steps:
        step(pool)


class Writer:
    """Writes the lines of a program as steps that reach nothing but what they use.

    A function that reaches less takes ``oplib.jit`` less time to read.
    """

    def __init__(self, run: Run) -> None:
        self.lib, self.program, self.skipped = run.lib, run.program, run.skipped
        self.settings, self.is_pure = run.settings, run.is_pure
        self.note = (lambda what: None) if run.is_pure else run.trace.append
        self.run_steps = run_steps if run.is_pure else run.attempt_steps

    def write_lines(self, lines: Sequence[Line], place: tuple[int, ...] = ()) -> tuple[tuple[Any, Step], ...]:
        places = [(*place, number) for number in range(len(lines))]
        return tuple(
            (place, self.write_line(line, place))
            for line, place in zip(lines, places, strict=True)
            if place not in self.skipped
        )

    def write_line(self, line: Line, place: tuple[int, ...]) -> Step:
        lib = self.lib
        if line.kind == "region":
            return self.write_region(line, place)
        if line.kind == "python":
            work = self.write_python(line.name)
        elif line.kind == "hook":
            work = self.write_hook(line.name, place)
        else:
            work = make_tables(lib)[line.kind][line.name]
        first, second = line.a, line.b

        def step(pool: Pool) -> None:
            a = pool.pick(first)
            pool.add(work(lib, a, pool.pick_beside(a, second)))

        return step

    def write_python(self, name: str) -> Callable[..., Any]:
        settings = self.settings
        return {
            "rate": lambda lib, a, b: a * settings.rate,
            "branch": lambda lib, a, b: a.sin() if settings.flag else a.tanh(),
            "count": lambda lib, a, b: a + settings.count,
        }[name]

    def write_hook(self, name: str, place: tuple[int, ...]) -> Callable[..., Any]:
        note = self.note

        def hook_node(lib: Any, a: Any, b: Any) -> None:
            if a.grad_fn is not None:
                a.grad_fn.register_hook(lambda results, grads: note(("node", place)))

        def keep(handle: Any) -> None:
            """A handle is no value of the program."""

        def register(lib: Any, a: Any, hook: Any) -> None:
            if lib.__name__ == "torch":
                _ = a.grad_fn  # torch 2.13 crashes where register_hook itself finds a view's new history
            a.register_hook(hook)

        return {
            "retain": lambda lib, a, b: a.retain_grad(),
            "node": hook_node,
            "accumulate": lambda lib, a, b: keep(
                a.register_post_accumulate_grad_hook(lambda leaf: (leaf.grad.mul_(0.5), None)[1])
            ),
            "double": lambda lib, a, b: register(lib, a, lambda grad: None if grad is None else grad * 2),
            "look": lambda lib, a, b: register(lib, a, lambda grad: note(("hook", place))),
            "in place": lambda lib, a, b: register(
                lib, a, lambda grad: None if grad is None else grad.clone().mul_(0.5)
            ),
        }[name]

    def write_region(self, line: Line, place: tuple[int, ...]) -> Step:
        steps, run_steps = self.write_lines(line.inside, place), self.run_steps
        if line.name in ("checkpoint", "reentrant"):
            return self.write_checkpoint(line, steps)
        make_block = self.write_block(line)

        def step(pool: Pool) -> None:
            with make_block():
                run_steps(steps, pool)

        return step

    def write_block(self, line: Line) -> Callable[[], Any]:
        lib, name = self.lib, line.name
        if name == "saved hooks":
            kind = SAVED_HOOKS[line.a % len(SAVED_HOOKS)]
            pack, unpack = make_tables(lib)["saved"][
                "clone" if self.is_pure and kind in SAVED_HOOKS[:2] else kind
            ]
            return lambda: lib.autograd.graph.saved_tensors_hooks(pack, unpack)
        if name == "autocast":
            dtype = getattr(lib, ["bfloat16", "float16"][line.a % 2])
            return lambda: lib.autocast("cpu", dtype)
        if name == "enable_grad":  # torch asks for nothing in inference mode
            return lambda: contextlib.nullcontext() if lib.is_inference_mode_enabled() else lib.enable_grad()
        return {"no_grad": lib.no_grad, "inference": lib.inference_mode}[name]

    def write_checkpoint(self, line: Line, steps: Any) -> Step:
        run_steps, checkpoint = self.run_steps, self.lib.utils.checkpoint.checkpoint
        first, second, is_reentrant = line.a, line.b, line.name == "reentrant"

        def run(a: Any, b: Any) -> Any:
            pool = Pool([a, b])
            run_steps(steps, pool)
            return pool.values[-1] * 1

        def step(pool: Pool) -> None:
            a = pool.pick(first)
            pool.add(checkpoint(run, a, pool.pick_beside(a, second), use_reentrant=is_reentrant))

        return step

    def write_ending(self, leaves: Sequence[Any]) -> Step:
        lib, ending, places = self.lib, self.program.ending, self.program.roots

        def differentiate(pool: Pool) -> None:
            needing = [leaf for leaf in leaves if leaf.requires_grad]
            roots = [pool.values[-1 - place % len(pool.values)] for place in places]
            roots = [root for root in roots if root.requires_grad]
            if ending == "none" or not roots:
                return
            starts = [lib.ones_like(root) * 0.5 for root in roots]
            if ending == "backward":
                lib.autograd.backward(roots, starts)
            elif ending == "twice":
                lib.autograd.backward(roots, starts, retain_graph=True)
                lib.autograd.backward(roots, starts)
            elif ending == "inputs":
                lib.autograd.backward(roots, starts, inputs=needing[:1])
            elif ending == "grad":
                pool.given.extend(lib.autograd.grad(roots, needing, starts, allow_unused=True))
            else:
                first = lib.autograd.grad(roots, needing, starts, create_graph=True, allow_unused=True)
                total = [(one * one).sum() for one in first if one is not None and one.requires_grad]
                second = lib.autograd.grad(total, needing, allow_unused=True) if total else ()
                pool.given.extend((*first, *second))

        return differentiate


class Run:
    """A program on one library: its leaves, its settings, and what its lines gave."""

    def __init__(self, lib: Any, program: Program, skipped: Any = (), *, is_pure: bool = False) -> None:
        self.lib, self.program, self.skipped = lib, program, frozenset(skipped)
        self.is_pure = is_pure
        self.versions: dict[int, tuple[Any, int]] = {}
        self.errors: dict[Any, str] = {}
        self.trace: list[Any] = []
        self.settings = SimpleNamespace(rate=0.5, flag=True, count=0)
        self.leaves = [
            lib.tensor(values).to(getattr(lib, dtype)).requires_grad_(needs)
            for dtype, values, needs in program.leaves
        ]

    def write(self) -> Callable[[Any], list[Any]]:
        """Returns the program as a function of a Tensor, which returns all values."""
        leaves, writer = self.leaves, Writer(self)
        steps, run_steps = writer.write_lines(self.program.lines), writer.run_steps
        if "ending" not in self.skipped:
            steps = (*steps, ("ending", writer.write_ending(leaves)))

        def call(x: Any) -> list[Any]:
            pool = Pool([*leaves, x, *[leaf * 1 for leaf in leaves]])
            run_steps(steps, pool)
            return [*pool.values[len(leaves) :], *pool.others, *pool.given]

        return call

    def attempt_steps(self, steps: Sequence[tuple[Any, Step]], pool: Pool) -> None:
        """Runs steps, and notes the error of each."""
        for place, step in steps:
            try:
                step(pool)
            except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
                self.errors[place] = f"{type(error).__name__}: {str(error)[:400]}"
            for one in (*pool.values, *pool.others):
                if id(one) not in self.versions:  # torch's kernels write into what they return
                    self.versions[id(one)] = (one, read_version(one))

    def make_arguments(self) -> Iterator[Any]:
        """Yields the argument of each call, and changes the settings for it."""
        dtype = getattr(self.lib, self.program.leaves[0][0])
        for number, (rate, flag, count) in enumerate(self.program.settings):
            self.settings.rate, self.settings.flag, self.settings.count = rate, flag, count
            values = np.array([[0.25, -0.5, 0.75], [0.5, 0.5, -1.0]], np.float32) + number
            yield self.lib.tensor(values).to(dtype)
