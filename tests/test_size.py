"""The size of the library. It may grow only by a decision that its record names (docs/adr/0030-size.md)."""

import ast
from pathlib import Path

from tests.counts import sizes

PACKAGE = Path(__file__).parent.parent / "oplib"

# The one place of the bounds. A change that raises them adds a line to docs/adr/0030-size.md.
MOST_LINES = 88_250
MOST_LINES_OF_CODE = 56_400


def count_code(text: str) -> int:
    """Returns the number of lines that are no docstring, no comment and not blank."""
    tree = ast.parse(text)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and _is_text(first.value)
            ):
                docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    numbered = enumerate(text.splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in docstrings
        for number, line in numbered
    )


def _is_text(constant: ast.Constant) -> bool:
    return isinstance(constant.value, str)


def test_the_library_is_not_larger_than_its_record_says():
    texts = [path.read_text() for path in sorted(PACKAGE.rglob("*.py"))]
    lines = sum(text.count("\n") for text in texts)
    code = sum(map(count_code, texts))
    sizes.update({"lines of oplib": lines, "lines of code of oplib": code})
    assert lines <= MOST_LINES
    assert code <= MOST_LINES_OF_CODE


def test_docstrings_comments_and_blank_lines_are_not_code():
    head = '"""A module."""\n\n# why\nx = """two\nlines"""\n\n'
    function = 'def f():\n    """Doc.\n\n    More.\n    """\n    return x\n'
    assert count_code(head) == 2
    assert count_code(head + function) == 4
