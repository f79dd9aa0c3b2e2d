"""Docstrings of functions, completed by texts that several functions share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping

_ORDER = ("Args", "Returns", "Raises", "Gradient", "Source", "Overloads", "Example")
_HEADING = f"^({'|'.join(_ORDER)}):$"
_WIDTH = 108


def complete_docstring(
    doc: str, arguments: Mapping[str, str] | None = None, *, order: Iterable[str] = (), **sections: str
) -> str:
    r"""Returns a docstring with texts for what it does not say itself.

    Args:
        doc: a docstring with sections in Google's style, with or without the indentation of the source.
        arguments: a text for each parameter that the docstring may lack.
        order: the names of the parameters in their order; by default new ones are described last.
        **sections: a text for each section that the docstring may lack. A line of ``Raises`` is added if
            the docstring has none about this error.

    Example:
        >>> doc = "Rounds.\n\nArgs:\n    x: a number.\n\nRaises:\n    ValueError: x is nan."
        >>> print(complete_docstring(doc, {"digits": "0 or more."}, Gradient="None."))
        Rounds.
        <BLANKLINE>
        Args:
            x: a number.
            digits: 0 or more.
        <BLANKLINE>
        Raises:
            ValueError: x is nan.
        <BLANKLINE>
        Gradient:
            None.
        <BLANKLINE>
    """
    # Patterns are compiled late: imports are fast.
    summary, *pieces = re.split(_HEADING, inspect.cleandoc(doc), flags=re.MULTILINE)
    parts = {heading: text.strip("\n") for heading, text in zip(pieces[::2], pieces[1::2], strict=True)}
    if arguments:
        shared = [(name, wrap(f"    {name}: {text}", "        ")) for name, text in arguments.items()]
        ranks = {name: rank for rank, name in enumerate(order)}
        entries = _merge(_split_entries(parts.get("Args", "")), shared)
        entries.sort(key=lambda entry: ranks.get(entry[0].lstrip("*"), 0))
        parts["Args"] = "\n".join(text for _, text in entries)
    if raised := sections.pop("Raises", ""):
        shared = [(line.partition(":")[0], f"    {line}") for line in raised.splitlines()]
        entries = _merge(_split_entries(parts.get("Raises", "")), shared)
        parts["Raises"] = "\n".join(text for _, text in entries)
    missing = {heading: wrap(f"    {text}", "    ") for heading, text in sections.items()}
    parts = missing | parts
    listed = [f"{heading}:\n{parts[heading]}" for heading in _ORDER if parts.get(heading)]
    return "\n\n".join([summary.rstrip(), *listed]) + "\n"


def _split_entries(section: str) -> list[tuple[str, str]]:
    """Returns the entries of a section, each with the lines that continue it, and their names."""
    entries = re.split(r"\n(?=    \S)", section) if section else []
    return [(entry.partition(":")[0].strip(), entry) for entry in entries]


def _merge(own: list[tuple[str, str]], shared: list[tuple[str, str]]) -> list[tuple[str, str]]:
    names = {name for name, _ in own}
    return [*own, *(entry for entry in shared if entry[0] not in names)]


def wrap(line: str, indent: str) -> str:
    """Returns a line wrapped to the width of docstrings; much faster than textwrap."""
    lines: list[str] = []
    while len(line) > _WIDTH:
        end = line.rfind(" ", 0, _WIDTH)
        lines.append(line[:end])
        line = f"{indent}{line[end + 1 :]}"
    return "\n".join([*lines, line])
