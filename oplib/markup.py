"""Pages of HTML: one file without network, in light and dark, for reports and tables."""

from __future__ import annotations

import html
from pathlib import Path


def escape(value: object) -> str:
    """Returns a value as text in which no character is markup."""
    return html.escape(str(value))


def make_page(title: str, body: str, style: str = "") -> str:
    """Returns a whole page.

    Args:
        title: the title, as plain text.
        body: the content, as HTML.
        style: in place of that of tables.
    """
    style = style or Path(__file__).with_suffix(".css").read_text()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{body}</body></html>\n"
    )
