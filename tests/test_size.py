"""The size of the library. It may grow only by a decision that its record names (docs/adr/0030-size.md)."""

import ast
from pathlib import Path

from tests.counts import sizes

PACKAGE = Path(__file__).parent.parent / "oplib"

# The one place of the bound. A change that raises it adds a line to docs/adr/0030-size.md.
MOST_NODES = 355_360
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count_nodes(text: str) -> int:
    """Returns the number of nodes of the syntax tree, without docstrings and contexts of names."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            del node.body[0]
    return sum(not isinstance(node, ast.expr_context) for node in ast.walk(tree))


def test_the_library_is_not_larger_than_its_record_says():
    nodes = sum(count_nodes(path.read_text()) for path in sorted(PACKAGE.rglob("*.py")))
    sizes["nodes of oplib"] = nodes
    assert nodes <= MOST_NODES


def test_docstrings_comments_and_layout_count_nothing():
    text = 'def f(x):\n    """Doc."""\n    return x + 1\n'
    assert count_nodes(text) == 9  # module, function, arguments, argument, return, sum, name, plus, number
    assert (
        count_nodes('"""A module."""\n\n# why\ndef f(\n    x,\n):\n    return (\n        x + 1\n    )\n') == 9
    )
    assert count_nodes("x = 1 + 2 * y if z else f(y)") > count_nodes("x = 1 + 2")
