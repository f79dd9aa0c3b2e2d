"""Reports of tables: as text, as a page, in notebooks, in files."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path

from oplib.markup import escape, make_page
from oplib.tracebacks import entry_point

from .graph import save_form
from .svg import read_asset
from .text import align

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""The title of a table, its heads, and its rows. Both may be empty."""
_NUMBER = re.compile(r"[\d,.]+( ?(ms|[KMGT]i?B|B|%))?")


class Report(ABC):
    """Tables under a title. ``str`` gives text, ``html()`` a page, and a notebook shows the tables."""

    @abstractmethod
    def _show_title(self) -> str: ...

    @abstractmethod
    def _list_tables(self) -> Sequence[Table]: ...

    def __str__(self) -> str:
        parts = [self._show_title()]
        for title, heads, rows in self._list_tables():
            shown = [heads, *rows] if heads and rows else rows
            parts += ["", *filter(None, [title]), *(align(shown) if rows else ["none"])]
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
        body = f"{self._write_body()}<script>{read_asset('report.js')}</script>"
        return make_page(self._show_title(), body, _read_style())

    def _repr_html_(self) -> str:
        return f"<style>{_read_style()}</style>{self._write_body()}"

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


def _write_section(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table with its title, as HTML."""
    lines = ["".join([f"<th>{escape(head)}</th>" for head in heads])] if heads else []
    lines += ["".join(map(_write_cell, row)) for row in rows] or ["<td>none</td>"]
    shown = "".join([f"<tr>{line}</tr>" for line in lines])
    return f"<section>{f'<h2>{title}</h2>' if title else ''}<div><table>{shown}</table></div></section>"


def _write_cell(cell: str) -> str:
    share = f' style="--share:{cell}"' if cell.endswith("%") else ""
    number = " class=number" if _NUMBER.fullmatch(cell) else ""
    return f"<td{number}{share}>{escape(cell)}</td>"


def _read_style() -> str:
    return read_asset("graph.css") + read_asset("program.css")
