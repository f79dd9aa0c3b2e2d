"""Docstrings of functions that get one more argument."""

from __future__ import annotations


def add_to_arguments(doc: str | None, line: str) -> str | None:
    """Returns a docstring with one more line at the end of its arguments; unchanged where it has none.

    Args:
        doc: of a function, with or without the indentation of the source.
        line: about the argument.
    """
    for indent in ("", "    "):
        end = f"\n\n{indent}Returns:\n"
        if doc and end in doc:
            return doc.replace(end, f"\n{indent}    {line}{end}", 1)
    return doc
