"""Docstrings of functions: what is added to those that are written by hand."""

from __future__ import annotations

_EXAMPLE = "Example:\n"


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


def add_source(doc: str | None, source: str) -> str | None:
    """Returns a docstring with a section Source unless it has one, and with the import in its example.

    A docstring without an example is returned unchanged.

    Args:
        doc: of a function, with or without the indentation of the source.
        source: whose contract the function follows.
    """
    text, _, example = (doc or "").rpartition(_EXAMPLE)
    if not text:
        return doc
    indent = text[text.rindex("\n") + 1 :]
    if f"{indent}Source:\n" not in text:
        text += f"Source:\n{indent}    {source}\n\n{indent}"
    return f"{text}{_EXAMPLE}{indent}    >>> import oplib\n{example}"
