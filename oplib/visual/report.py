"""Reports of tables: as text, as a page, in notebooks, in files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape
from itertools import starmap
from pathlib import Path

from oplib.tracebacks import entry_point

from .graph import save_form
from .svg import read_asset
from .text import align

Table = tuple[str, Sequence[Sequence[str]]]
"""The title of a table, and its rows. The first row of a table without a title has the heads."""


class Report(ABC):
    """Tables under a title. ``str`` gives text, ``html()`` a page, and a notebook shows the tables."""

    @abstractmethod
    def _show_title(self) -> str: ...

    @abstractmethod
    def _list_tables(self) -> Sequence[Table]: ...

    def __str__(self) -> str:
        parts = [self._show_title()]
        for title, rows in self._list_tables():
            parts += ["", *([title] if title else ()), *(align(rows) if rows else ["none"])]
        return "\n".join(parts)

    def _write_body(self) -> str:
        sections = "".join(starmap(_write_section, self._list_tables()))
        return (
            f'<main class="oplib-graph oplib-program"><h1>{escape(self._show_title())}</h1>'
            f'<div class="tables">{sections}</div>{self._write_rest()}</main>'
        )

    def _write_rest(self) -> str:
        return ""

    def html(self) -> str:
        """Returns a page for browsers: one file that needs no network."""
        head = f'<meta charset="utf-8"><title>{escape(self._show_title())}</title>'
        view = '<meta name="viewport" content="width=device-width,initial-scale=1">'
        return (
            f'<!doctype html><html lang="en"><head>{head}{view}{_read_style()}</head>'
            f"<body>{self._write_body()}<script>{read_asset('report.js')}</script></body></html>"
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
        caller = f"{type(self).__name__.removesuffix('Report').lower()}.save"
        return save_form(path, {".html": self.html, ".txt": self.__str__}, caller)


def _write_section(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Returns a table with its title, as HTML."""
    lines = ["".join(map(_write_cell, row)) for row in rows]
    head = f"<h2>{title}</h2>" if title else ""
    if not title:
        lines[0] = lines[0].replace("td>", "th>")
    shown = "".join(f"<tr>{line}</tr>" for line in lines) or "<tr><td>none</td></tr>"
    return f"<section>{head}<div><table>{shown}</table></div></section>"


def _write_cell(cell: str) -> str:
    share = f' style="--share:{cell}"' if cell.endswith("%") else ""
    return f"<td{share}>{escape(cell)}</td>"


def _read_style() -> str:
    return f"<style>{read_asset('graph.css')}{read_asset('program.css')}</style>"
