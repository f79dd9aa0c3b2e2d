"""Reports of tables: as text, as a page, in notebooks, in files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from pathlib import Path

from oplib.errors import ArgumentValueError
from oplib.tracebacks import entry_point

from .graph import write_text
from .svg import read_asset


class Report(ABC):
    """Tables under a title. ``str`` gives text, ``html()`` a page, and a notebook shows the tables."""

    name: str

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def _write_body(self) -> str: ...

    def html(self) -> str:
        """Returns a page for browsers: one file that needs no network."""
        head = f'<meta charset="utf-8"><title>{escape(self.name)}</title>'
        view = '<meta name="viewport" content="width=device-width,initial-scale=1">'
        return (
            f'<!doctype html><html lang="en"><head>{head}{view}{_read_style()}</head>'
            f"<body>{self._write_body()}</body></html>"
        )

    def _repr_html_(self) -> str:
        return f"{_read_style()}{self._write_body()}"

    @entry_point
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the report to a file, as text or HTML, and returns the path.

        Args:
            path: ends in ``.html`` or ``.txt``.

        Raises:
            ArgumentValueError: the ending names no form.
            DataError: the file cannot be written.
        """
        path = Path(path)
        caller = f"{type(self).__name__.removesuffix('Report').lower()}.save"
        if path.suffix not in (".html", ".txt"):
            raise ArgumentValueError(
                f"{caller}: the ending of the path names no form. Got {str(path)!r}. Choose .html or .txt."
            )
        return write_text(path, self.html() if path.suffix == ".html" else str(self), caller)


def write_section(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Returns a table with its title, as HTML."""
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    shown = "".join(f"<tr>{row}</tr>" for row in cells) or "<tr><td>none</td></tr>"
    return f"<section><h2>{title}</h2><div><table>{shown}</table></div></section>"


def _read_style() -> str:
    return f"<style>{read_asset('graph.css')}{read_asset('program.css')}</style>"
