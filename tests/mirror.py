"""The tests of a module: ``tests/<path>/test_<module>.py``, and ``test_<module>_<aspect>.py`` beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS, PACKAGE = ROOT / "tests", ROOT / "oplib"


def list_tests_of(module: Path, tests: Path = TESTS) -> list[Path]:
    """Returns the test files of a module.

    A module without a file of its own is tested by the files of its package. If the package has none, the
    files of the package above test it.

    Args:
        module: a path inside the package, such as ``autograd/engine/run.py``.
        tests: the folder of all tests.
    """
    own = list_own_tests_of(module, tests)
    if own:
        return own
    for folder in module.parents:
        found = sorted((tests / folder).glob("test_*.py"))
        if found:
            return found
    return []


def list_own_tests_of(module: Path, tests: Path = TESTS) -> list[Path]:
    """Returns the test files that have the name of a module."""
    folder = tests / module.parent
    return sorted([*folder.glob(f"test_{module.stem}.py"), *folder.glob(f"test_{module.stem}_*.py")])


@cache
def list_importers_of(module: Path) -> list[Path]:
    """Returns the modules that import a module by its place, not those that import it from a package."""
    return [
        path.relative_to(PACKAGE)
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / module in _list_imports(path)
    ]


def list_imported_by(module: Path) -> list[Path]:
    """Returns the modules of its floor that a module imports by their place."""
    targets = dict.fromkeys(_list_imports(PACKAGE / module))
    return [
        one.relative_to(PACKAGE)
        for one in targets
        if one.is_relative_to(PACKAGE / module.parts[0]) and one.is_file()
    ]


@cache
def list_tests_that_import(module: Path) -> list[Path]:
    """Returns the test files that import a module by its place."""
    return [path for path in sorted(TESTS.rglob("test_*.py")) if PACKAGE / module in _list_imports(path)]


@cache
def _list_imports(path: Path) -> list[Path]:
    return [target.with_suffix(".py") for target in _find_targets(path)]


def _find_targets(path: Path) -> Iterator[Path]:
    """Gives the places that a module may import from, such as ``oplib/tensor`` and ``oplib/tensor/names``."""
    lines = re.finditer(r"^ *from (\.*)([\w.]*) import (\([^)]*\)|.*)", path.read_text(), re.MULTILINE)
    for dots, place, names in (line.groups() for line in lines):
        base = path.parents[len(dots) - 1] if dots else ROOT
        base = base.joinpath(*filter(None, place.split(".")))
        yield base
        yield from (base / name for name in re.findall(r"\w+", names))
