"""Checks the changed files by ruff, pyright, and the tests that mirror them: ``python -m tests.quick``.

A changed module is checked by its own tests, then by tests that import it, then by those of modules that
import it, then by those of its package, then by those of modules that it imports. A changed test is checked
by itself. Slow tests are left out. This does not replace ``make check``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tests.mirror import (
    PACKAGE,
    ROOT,
    TESTS,
    list_imported_by,
    list_importers_of,
    list_own_tests_of,
    list_tests_of,
    list_tests_that_import,
)

MOST = 12
"""The number of tests, and of modules, that import a changed one and are chosen: the nearest of them."""

MOST_IMPORTED = 4
"""The number of modules that a changed one imports and that are tested too: those that few others import."""


def list_changed(base: str) -> list[Path]:
    """Returns the Python and stub files that differ from a commit or are not tracked, and still exist."""
    commands = (
        ["git", "diff", "--name-only", base, "--"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    names = {
        name
        for command in commands
        for name in subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    }
    return [
        ROOT / name
        for name in sorted(names)
        if Path(name).suffix in {".py", ".pyi"}
        if (ROOT / name).is_file()
    ]


def list_tests(changed: Iterable[Path]) -> list[Path]:
    """Returns the test files of the changed files, then those around them."""
    nearest: dict[Path, None] = {}
    others: dict[Path, None] = {}
    for path in sorted(changed):
        if path.is_relative_to(PACKAGE) and path.suffix == ".py":
            module = path.relative_to(PACKAGE)
            nearest |= dict.fromkeys(list_own_tests_of(module))
            others |= dict.fromkeys(_list_tests_around(module))
        elif path.is_relative_to(TESTS) and path.name.startswith("test_"):
            nearest[path] = None
    return list(nearest | others)


def _list_tests_around(module: Path) -> list[Path]:
    """Returns the tests that import a module, and those of modules around it, the nearest first."""
    if module.parent == Path():
        return list_tests_of(module)
    direct = _sort_by_distance(list_tests_that_import(module), TESTS / module)
    importers = _sort_by_distance(_list_tested_importers(module), module)
    tests = itertools.chain.from_iterable(map(list_own_tests_of, importers[:MOST]))
    package = [*list_tests_of(module), *sorted((TESTS / module.parent).glob("test_*.py"))]
    used = [one for one in list_imported_by(module) if list_own_tests_of(one)]
    used.sort(key=lambda one: len(list_importers_of(one)))
    below = itertools.chain.from_iterable(map(list_own_tests_of, used[:MOST_IMPORTED]))
    return [*direct[:MOST], *tests, *package, *below]


def _list_tested_importers(module: Path) -> set[Path]:
    """Returns the modules that import one and have tests, and those that import one of the others."""
    importers = list_importers_of(module)
    others = itertools.chain.from_iterable(
        list_importers_of(one) for one in importers if not list_own_tests_of(one)
    )
    return {one for one in {*importers, *others} - {module} if list_own_tests_of(one)}


def _sort_by_distance(paths: Iterable[Path], place: Path) -> list[Path]:
    return sorted(paths, key=lambda one: (-len(os.path.commonpath([one, place])), one))


def plan(changed: list[Path], arguments: list[str]) -> list[list[str]]:
    """Returns the commands for the changed files, fast ones first."""
    python, tools = sys.executable, Path(sys.executable).parent
    names = [str(path) for path in changed]
    typed = [str(path) for path in changed if path.is_relative_to(PACKAGE)]
    tests = [str(path) for path in list_tests(changed)]
    commands = [[str(tools / "ruff"), "check", *names], [str(tools / "ruff"), "format", "--check", *names]]
    if typed:
        commands.append([str(tools / "pyright"), "--pythonpath", python, *typed])
    if tests:
        workers = str(min(len(tests), os.cpu_count() or 1)) if len(tests) > 2 else "0"
        commands.append([python, "-m", "pytest", "-q", "-n", workers, "-m", "not slow", *tests, *arguments])
    return commands


def main() -> int:
    """Runs the commands until one fails, and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.quick", description=__doc__)
    parser.add_argument("--base", default="HEAD", help="the commit to compare with; HEAD if not given")
    options, arguments = parser.parse_known_args()
    changed = list_changed(options.base)
    if not changed:
        print(f"no Python file differs from {options.base}; name another commit by --base")
        return 0
    for command in plan(changed, arguments):
        start = time.perf_counter()
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        print(
            f"--- {time.perf_counter() - start:.1f} s: {Path(command[0]).name} {' '.join(command[1:3])}",
            flush=True,
        )
        if code and not (code == 5 and "pytest" in command):  # 5: every test of these files is slow
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
