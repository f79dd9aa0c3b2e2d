"""Pictures of the examples of a page, and tabs for its pairs of programs.

``<!-- picture: expression -->`` becomes what the value of the expression shows in a notebook. The code of the
page above the comment has run before. A code host shows nothing there.
"""

from __future__ import annotations

import contextlib
import io
import re

from oplib.visual.svg import read_asset

from .flowchart import draw_chart

_PIECE = re.compile(
    r"^```(?P<language>python|mermaid)\n(?P<code>.*?)^```$|^<!-- picture: (?P<value>.*?) -->$",
    re.MULTILINE | re.DOTALL,
)


def draw_pictures(text: str, name: str) -> str:
    """Returns the text of a page with its pictures in place of charts and comments.

    Args:
        text: of the page.
        name: of its file, which the lines in pictures show.
    """
    parts, end = [], 0
    namespace: dict[str, object] = {"__name__": "__main__"}
    has_values = "<!-- picture:" in text
    for piece in _PIECE.finditer(text):
        picture = None
        if piece["value"]:
            line = text.count("\n", 0, piece.start("value"))
            picture = _show(eval(compile("\n" * line + piece["value"], name, "eval"), namespace))
        elif piece["language"] == "mermaid":
            picture = draw_chart(piece["code"])
        elif has_values:
            with contextlib.redirect_stdout(io.StringIO()):
                line = text.count("\n", 0, piece.start("code"))
                exec(compile("\n" * line + piece["code"], name, "exec"), namespace)
        if picture is not None:
            parts += [text[end : piece.start()], wrap(picture)]
            end = piece.end()
    return "".join([*parts, text[end:]])


def _show(value: object) -> str:
    """Returns the HTML that a value shows in a notebook."""
    shown = value.svg() if hasattr(value, "svg") else value._repr_html_()
    return str(shown)


def follow_theme() -> str:
    """Returns a style by which pictures follow the button of the theme, whatever the system prefers."""
    light, dark = re.findall(r"\.oplib-graph\{(--[^}]*)\}", read_asset("graph.css"))[:2]
    return (
        f'<style>body[data-theme="light"] .oplib-graph{{{light}}}'
        f'body[data-theme="dark"] .oplib-graph{{{dark}}}</style>'
    )


def wrap(picture: str) -> str:
    """Returns a block of HTML for a page: a wide picture scrolls inside of it."""
    one_line = re.sub(r"\s*\n\s*", " ", picture)
    return f'\n```{{raw}} html\n<div class="picture">{one_line}</div>\n```\n'


_PAIR = re.compile(
    r"<table><tr><th>(?P<left>[^<]*)</th><th>(?P<right>[^<]*)</th></tr><tr><td>\n(?P<first>.*?)\n</td><td>\n"
    r"(?P<second>.*?)\n</td></tr></table>",
    re.DOTALL,
)


def set_tabs(text: str) -> str:
    """Returns the text of a page with programs that stand side by side as tabs."""

    def write(pair: re.Match[str]) -> str:
        items = [(pair["left"], pair["first"]), (pair["right"], pair["second"])]
        tabs = [f":::{{tab-item}} {title}\n:sync: {title}\n{code}\n:::" for title, code in items]
        return "\n".join(["::::{tab-set}", *tabs, "::::"])

    return _PAIR.sub(write, text)
