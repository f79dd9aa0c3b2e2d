"""Builds docs/inside/spec_status.md: each row of the behaviour specification, and the tests that prove it.

The marks are read from the text of the tests, so nothing is imported and a test that is skipped here counts
too. Run it as ``python -m tests.spec_status``.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "inside" / "spec_status.md"
HEAD = """\
# Status of the specification

Built by `make spec` and `make docs` from the marks `@pytest.mark.spec(...)` of the tests. It is not tracked.
A row is shown as far as the tests beside it go; where a test runs the same program on torch and on oplib, the
name is that of the program.

"""


class Mark(NamedTuple):
    """A row that a test says it proves.

    Attributes:
        row: such as ``001.7``.
        test: its place: the file, and the name in it (none where the mark is for the whole file).
    """

    row: str
    test: str


def read_rows() -> dict[str, dict[str, str]]:
    """Returns the rows and their subjects, by document."""
    return tomllib.loads((ROOT / "tests" / "spec_rows.toml").read_text())


def find_marks() -> list[Mark]:
    """Returns the marks of all tests."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [mark for path in files for mark in read_marks(path.read_text(), _name(path))]


def read_marks(text: str, name: str) -> list[Mark]:
    """Returns the marks in the text of one file of tests."""
    return list(_find_in(ast.parse(text).body, name, ""))


def _name(path: Path) -> str:
    return path.relative_to(ROOT / "tests").as_posix()


def _find_in(body: list[ast.stmt], name: str, inside: str) -> Iterator[Mark]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _read_calls(statement.decorator_list, f"{name}::{statement.name}")
            yield from _find_in(statement.body, name, f"::{statement.name}")
        elif isinstance(statement, ast.FunctionDef):
            yield from _read_calls(statement.decorator_list, f"{name}{inside}::{statement.name}")
        elif isinstance(statement, ast.Assign):  # pytestmark, or marks of parameters
            yield from _read_calls([statement.value], name + inside)


def _read_calls(expressions: list[ast.expr], test: str) -> Iterator[Mark]:
    for expression in expressions:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.spec":
                for argument in node.args:
                    yield Mark(ast.literal_eval(argument), test)


def write_page(rows: dict[str, dict[str, str]], marks: list[Mark]) -> str:
    """Returns the text of the page."""
    tests: dict[str, list[str]] = {}
    for row, test in marks:
        if test not in tests.setdefault(row, []):
            tests[row].append(test)
    count = sum(len(subjects) for subjects in rows.values())
    shown = sum(row in tests for subjects in rows.values() for row in subjects)
    parts = [HEAD, f"{shown} of {count} rows have tests.\n"]
    for document, subjects in rows.items():
        parts.append(f"\n## {document}\n\n| row | subject | shown by |\n|---|---|---|\n")
        parts += [f"| {row} | {subject} | {_cell(tests.get(row))} |\n" for row, subject in subjects.items()]
    return "".join(parts)


def _cell(tests: list[str] | None) -> str:
    """Returns the tests of a row, those of a file together."""
    if not tests:
        return "not yet"
    files: dict[str, list[str]] = {}
    for test in sorted(tests):
        file, _, name = test.partition("::")
        files.setdefault(file, []).append(name)
    return "<br>".join(f"`{file}` {', '.join(filter(None, names))}".rstrip() for file, names in files.items())


if __name__ == "__main__":
    PAGE.write_text(write_page(read_rows(), find_marks()))
