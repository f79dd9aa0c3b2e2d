"""Counts the mistakes that quick tests find: ``python -m tests.mutants oplib/library --count 50``.

A mutant is the project with one mistake: an operator, comparison, constant, condition or returned value is
another one. The tests that ``make quick`` chooses for the changed file run until one fails. A mutant that no
test finds survives; its line and its difference are printed. A test that fails kills a mutant only if it
passes without the mutant.

A test that hangs counts as one that fails, as in mutmut and cosmic-ray: it shows the mistake too. Each test
has the limit for itself, because many tests together may take long without a loop that never ends. The limit
counts CPU time, which other work on the machine does not change. A test that only waits hangs after four
times as many seconds.

The checkout is only read. Mutants are made in a copy, which is removed at the end and on Ctrl-C. The tests
run in forks of a process that has imported JAX, torch and pytest (``tests/warm.py``): first those of the
module, then the others. So a mutant that its own tests find costs four seconds, and not thirty.

Two other tools were considered. mutmut puts the mutants of a function beside it and forks for each of them.
But oplib reads the code of functions and compares lines, and JAX hangs where it is forked after it has
computed. cosmic-ray changes the checkout, takes one command of tests for all modules, and draws nothing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mirror import PACKAGE, ROOT, list_own_tests_of
from tests.quick import list_tests

MEMORY = 8 << 30
"""Bytes that a run of tests may allocate: a mutant may loop for ever over a growing list."""

COMPILED = Path(".pytest_cache", "jax")

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True)
class Mutant:
    """One mistake in a file: the bytes from ``start`` to ``end`` are replaced."""

    path: Path
    line: int
    start: int
    end: int
    text: str

    def change(self, source: bytes) -> bytes:
        """Returns the file with the mistake."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def describe(self, source: bytes) -> str:
        """Returns the difference that the mistake makes."""
        before, after = source.decode().splitlines(), self.change(source).decode().splitlines()
        lines = list(difflib.unified_diff(before, after, n=0, lineterm=""))
        return "\n".join(f"    {line}" for line in lines[3:])


def list_mutants(path: Path, source: bytes) -> list[Mutant]:
    """Returns the mutants of a file. Annotations and f-strings are left out."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    mutants: list[Mutant] = []
    for node in _walk(ast.parse(source)):
        for old, new in _swap(node):
            text = ast.unparse(ast.fix_missing_locations(new))
            mutants.append(
                Mutant(
                    path,
                    old.lineno,
                    starts[old.lineno - 1] + old.col_offset,
                    starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0),
                    text if isinstance(new, ast.stmt) else f"({text})",
                )
            )
    return mutants


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Walks over code that runs, without what cannot change a result: bounds of caches, and checks of ours.

    F-strings are left out too: positions inside of them are wrong in Python 3.11.
    """
    match node:
        case ast.JoinedStr():
            return
        case ast.keyword("strict" | "maxsize" | "slots" | "frozen"):  # of zip, lru_cache, dataclasses
            return
        case ast.If(test) if "TYPE_CHECKING" in ast.dump(test):
            return
        case ast.Assign([ast.Name(name)]) if name.lstrip("_").startswith("MOST_"):
            return
        case _:
            pass
    yield node
    for name, value in ast.iter_fields(node):
        if name not in {"annotation", "returns"}:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child)


def _swap(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    """Gives what is replaced in a node, with its replacement."""
    match node:
        case ast.Compare(left, [first, *others], comparators):
            yield node, ast.Compare(left, [SWAPPED[type(first)](), *others], comparators)  # pyright: ignore[reportArgumentType]
        case ast.BoolOp(op, values):
            yield node, ast.BoolOp(SWAPPED[type(op)](), values)  # pyright: ignore[reportArgumentType]
        case ast.BinOp(left, op, right) if type(op) in SWAPPED:
            yield node, ast.BinOp(left, SWAPPED[type(op)](), right)  # pyright: ignore[reportArgumentType]
        case ast.AugAssign(target, op, value) if type(op) in SWAPPED:
            yield node, ast.AugAssign(target, SWAPPED[type(op)](), value)  # pyright: ignore[reportArgumentType]
        case ast.UnaryOp(ast.Not(), operand):
            yield node, operand
        case ast.Constant(bool() as value):
            yield node, ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield node, ast.Constant(value + 1)
        case ast.Return(ast.Constant(None | False)):  # both are false, and True is a mutant
            pass
        case ast.Return(ast.expr() as value):
            yield value, ast.Constant(None)
        case ast.If(test) | ast.While(test) | ast.IfExp(test) if isinstance(
            test, (ast.Name, ast.Attribute, ast.Call)
        ):
            yield test, ast.UnaryOp(ast.Not(), test)
        case _:
            pass


def copy_project(root: Path, target: Path) -> None:
    """Copies the files of a checkout that git tracks or does not ignore, and what its tests have compiled."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    if (root / COMPILED).is_dir():
        shutil.copytree(root / COMPILED, target / COMPILED)


class Trial:
    """Runs the tests of mutants in a copy of the project."""

    def __init__(self, folder: Path, limit: float) -> None:
        self.folder, self.limit = folder, limit
        self._times = itertools.count()
        # Processes that tests start find the copy. -P: the server finds nothing of the checkout.
        command = [sys.executable, "-P", str(Path(__file__).with_name("warm.py"))]
        environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
        self._server = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def close(self) -> None:
        """Ends the process that runs the tests."""
        self._server.terminate()  # it ends the tests that run
        self._server.communicate()

    def run(self, mutant: Mutant, parts: Iterable[list[str]]) -> tuple[str, set[str]]:
        """Returns *killed*, *hung* or *survived*, and the tests that failed.

        Args:
            mutant: the mistake.
            parts: test files. Those of a part are collected only if the tests before have passed.
        """
        path = self.folder / mutant.path
        source, times = path.read_bytes(), path.stat()
        path.write_bytes(mutant.change(source))
        moment = next(self._times)  # another one for each mutant, so that no bytecode serves a second one
        os.utime(path, (moment, moment))
        try:
            for tests in parts:
                end = self._run_tests(["-x", *tests])
                if isinstance(end, str):
                    return "hung", {end or tests[0]}
                if end not in {0, 5}:  # 5: every test of these files is slow
                    return "killed", self._list_failed() or {tests[0]}
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return "survived", set()

    def find_broken(self, tests: set[str]) -> set[str]:
        """Returns the tests that fail or hang without a mutant."""
        end = self._run_tests(sorted(tests)) if tests else 0
        if end == 0:
            return set()
        if end in tests:
            return {str(end)} | self.find_broken(tests - {str(end)})
        return self._list_failed() or tests

    def _run_tests(self, arguments: list[str]) -> int | str:
        """Returns the exit code of pytest, or the name of the test that hung."""
        assert self._server.stdin
        assert self._server.stdout
        line = json.dumps([self.limit, "-q", "-m", "not slow", "--cache-clear", *arguments])
        print(line, file=self._server.stdin, flush=True)
        return json.loads(self._server.stdout.readline())

    def _list_failed(self) -> set[str]:
        """Returns the tests that failed in the last run: none if it failed before it came to a test."""
        file = self.folder / ".pytest_cache" / "v" / "cache" / "lastfailed"
        return set(json.loads(file.read_text())) if file.exists() else set()


@contextlib.contextmanager
def bound_memory() -> Generator[None]:
    """Bounds the memory of the processes that are started in the block."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def draw(paths: list[Path], root: Path, count: int, seed: int) -> list[Mutant]:
    """Draws mutants from the modules of some folders and files, and from lines such as ``config.py:12``."""
    places: dict[tuple[Path, str], None] = {}
    for path in paths:
        name, _, line = str(path).partition(".py:")
        files = [Path(f"{name}.py")] if line or path.suffix == ".py" else path.rglob("*.py")
        places |= dict.fromkeys((file, line) for file in sorted(files))
    mutants = [
        one
        for file, line in sorted(places)
        for one in list_mutants(file.relative_to(root), file.read_bytes())
        if line in {"", str(one.line)}
    ]
    return random.Random(seed).sample(mutants, min(count, len(mutants)))


def list_parts(path: Path) -> list[list[str]]:
    """Returns the tests of a module, which find most mutants, and the others that quick tests choose."""
    own = list_own_tests_of(path.relative_to(PACKAGE)) if path.is_relative_to(PACKAGE) else []
    parts = own, [one for one in list_tests([path]) if one not in own]
    return [[str(one.relative_to(ROOT)) for one in part] for part in parts if part]


def run_mutants(mutants: list[Mutant], root: Path, *, limit: float, minutes: float) -> Counter[str]:
    """Runs mutants until the time is up, prints each of them, and returns how they ended."""
    ends: dict[Mutant, str] = {}
    failed: dict[Mutant, set[str]] = {}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name).resolve()
        copy_project(root, folder)
        with contextlib.closing(Trial(folder, limit)) as trial:
            for mutant in mutants:
                if time.monotonic() - begin > 60 * minutes:
                    break
                start = time.monotonic()
                ends[mutant], failed[mutant] = trial.run(mutant, list_parts(ROOT / mutant.path))
                _show(ends[mutant], mutant, root, f", {time.monotonic() - start:.0f} s")
            broken = trial.find_broken(set().union(*failed.values()))
    for mutant, tests in failed.items():
        if tests & broken:
            ends[mutant] = "broken"
            _show("broken", mutant, root)
    return Counter(ends.values())


def _show(end: str, mutant: Mutant, root: Path, duration: str = "") -> None:
    print(f"{end}{duration}: {mutant.path}:{mutant.line}", flush=True)
    if end != "killed":
        print(mutant.describe((root / mutant.path).read_bytes()), flush=True)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Draws mutants, runs them, and prints the score."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="modules, folders, lines (oplib/config.py:12)")
    parser.add_argument("--count", type=int, default=50, help="how many mutants are drawn (50)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the draw")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of CPU time for a test (30)")
    parser.add_argument("--minutes", type=float, default=60.0, help="no mutant is begun after them (60)")
    options = parser.parse_args(arguments)
    mutants = draw([root / path for path in options.paths], root, options.count, options.seed)
    print(f"{len(mutants)} mutants, --seed {options.seed}", flush=True)
    with bound_memory():
        ends = run_mutants(mutants, root, limit=options.limit, minutes=options.minutes)
    killed = ends["killed"] + ends["hung"]
    print(
        f"{killed} of {ends.total() - ends['broken']} mutants killed, {ends['hung']} of them by a test that "
        f"hung; {ends['survived']} survived; {ends['broken']} left out, whose tests fail without them; "
        f"{len(mutants) - ends.total()} not begun"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
