"""Flow charts: the text of a ```mermaid block becomes an SVG, by the layout of ``oplib.visual``.

A code host draws such a block itself. The site would need a script of several megabytes for it.
:func:`read_chart` describes the part of the language that is supported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from oplib.visual.layout import Point, make_layers, place
from oplib.visual.node_drawing import draw_curve
from oplib.visual.svg import draw_arrows, read_asset

TITLE, LETTER, LINE, PAD = 6.9, 6.2, 16.0, 10.0
MARGIN = 10.0
_BOX = re.compile(r'(\w+)(?:(\(\[|\[)"([^"]*)"(?:\]\)|\]))?(?::::(\w+))?')
_ARROW = re.compile(r'\s*(-->|-\.->)(?:\|"([^"]*)"\|)?\s*')


@dataclass
class Box:
    """A box of a chart, or the text of an arrow.

    Attributes:
        lines: its text.
        kind: the class of its style; "text" for that of an arrow.
        is_round: whether its ends are round.
    """

    lines: list[str]
    kind: str = ""
    is_round: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        if self.kind == "text":
            return max(map(len, self.lines)) * LETTER + 4, 15.0 * len(self.lines)
        widths = [len(self.lines[0]) * TITLE, *(len(line) * LETTER for line in self.lines[1:])]
        return max(widths) + 2 * PAD, len(self.lines) * LINE + 14


@dataclass
class Chart:
    """Boxes by name, and arrows between them with whether they are dashed."""

    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: dict[tuple[str, str], bool] = field(default_factory=dict)


def read_chart(text: str) -> Chart:
    """Reads a chart: ``flowchart TB``, then in each line boxes and arrows between them.

    A box is ``name["text"]`` or ``name(["round"])``. In its text ``<br>`` begins a new line. ``:::custom``
    behind it marks it. An arrow is ``-->`` or ``-.->``, with a text as in ``-->|"text"|``.

    Raises:
        ValueError: a line is something else.
    """
    chart = Chart()
    head, *lines = [line.strip() for line in text.strip().splitlines()]
    if head != "flowchart TB":
        raise ValueError(
            f"chart: the first line must be 'flowchart TB'. Got {head!r}. Other directions are not supported."
        )
    for line in filter(None, lines):
        _read_line(chart, line)
    return chart


def _read_line(chart: Chart, line: str) -> None:
    """Reads a box, or a chain of boxes with arrows between them."""
    at, before, arrow = 0, "", None
    while at < len(line):
        box = _BOX.match(line, at)
        if box is None:
            raise ValueError(
                f'chart: a box is expected at {line[at:]!r}. Got the line {line!r}. Write name["text"].'
            )
        name, shape, text, kind = box.groups()
        if text is not None:
            chart.boxes[name] = Box(text.split("<br>"), kind or "", shape == "([")
        if arrow is not None:
            is_dashed = arrow[1] == "-.->"
            if arrow[2]:
                label = f"{before} to {name}"
                chart.boxes[label] = Box(arrow[2].split("<br>"), "text")
                chart.arrows[before, label] = chart.arrows[label, name] = is_dashed
            else:
                chart.arrows[before, name] = is_dashed
        before, at = name, box.end()
        arrow = _ARROW.match(line, at)
        if arrow is None and at < len(line):
            raise ValueError(
                f"chart: an arrow is expected at {line[at:]!r}. Got the line {line!r}. Write --> or -.->."
            )
        at = arrow.end() if arrow else at


def draw_chart(text: str) -> str:
    """Returns the SVG of a chart."""
    chart = read_chart(text)
    names = list(chart.boxes)
    sizes = [box.size for box in chart.boxes.values()]
    arrows = {(names.index(start), names.index(end)): dashed for (start, end), dashed in chart.arrows.items()}
    layers = make_layers(len(names), list(arrows))
    _keep_order(layers.rows, len(names))
    layout = place(layers, sizes)
    parts = []
    for (start, end), is_dashed in arrows.items():
        (x, y), *bends, (to_x, to_y) = [layout.centers[vertex] for vertex in layout.paths[start, end]]
        path = [(x, y + sizes[start][1] / 2), *bends, (to_x, to_y - sizes[end][1] / 2 - 1)]
        classes = "edge" + (" dashed" if is_dashed else "")
        classes += " out" if chart.boxes[names[end]].kind == "text" else ""
        parts.append(f'<path class="{classes}" d="{draw_curve(path)}"/>')
    parts += [
        _draw_box(box, center) for box, center in zip(chart.boxes.values(), layout.centers, strict=False)
    ]
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    label = escape("; ".join(" ".join(box.lines) for box in chart.boxes.values() if box.kind != "text"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="oplib-graph chart" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}" role="img" '
        f'aria-label="{label}"><style>{read_asset("graph.css")}</style>{draw_arrows()}{"".join(parts)}</svg>'
    )


def _keep_order(rows: list[list[int]], count: int) -> None:
    """Mirrors the layers if they stand in the opposite order of the text."""
    pairs = [pair for row in rows for pair in pairwise(vertex for vertex in row if vertex < count)]
    if sum(left > right for left, right in pairs) * 2 > len(pairs):
        for row in rows:
            row.reverse()


def _draw_box(box: Box, center: Point) -> str:
    width, height = box.size
    x, y = center
    top = y - (len(box.lines) - 1) * LINE / 2 + 4.5
    texts = "".join(
        f'<text class="{"title" if number == 0 else "more"}" x="{x:.1f}" y="{top + number * LINE:.1f}">'
        f"{escape(line)}</text>"
        for number, line in enumerate(box.lines)
    )
    if box.kind == "text":
        return f'<g class="label">{texts}</g>'
    radius = height / 2 if box.is_round else 7
    return (
        f'<g class="node {box.kind}"><rect class="box" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>{texts}</g>'
    )
