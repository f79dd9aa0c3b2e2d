"""The SVG of nodes and edges, which the static picture and the HTML page share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from html import escape

from .gradients import GradientReport
from .layout import Point, Size
from .records import NodeRecord

NODE_HEIGHT, PILL_HEIGHT = 42.0, 34.0
_WIDE, _NARROW = 7.3, 6.0  # of a letter of the name, and of the line below it
_LONGEST = 34


def format_bytes(count: int) -> str:
    """Returns a number of bytes with its unit, as ``24 KiB``.

    Example:
        >>> format_bytes(189 * 1024), format_bytes(80), format_bytes(1_500_000)
        ('189 KiB', '80 B', '1.43 MiB')
    """
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"


def clip(text: str, longest: int = _LONGEST) -> str:
    """Returns a text that fits into a box."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def measure_node(node: NodeRecord) -> Size:
    """Returns the width and height of the box of a node."""
    shape = clip(_show_shapes(node))
    if node.is_leaf:
        return max(len(clip(node.op)) * _WIDE, len(shape) * _NARROW) + 26, PILL_HEIGHT
    first = len(clip(node.op)) * _WIDE + (len(format_bytes(node.nbytes)) + 2) * _NARROW
    second = (len(shape) + len(node.place) + 3) * _NARROW
    return max(first, second, 96.0) + 20, NODE_HEIGHT


def _show_shapes(node: NodeRecord) -> str:
    return ", ".join(shape or "–" for shape in node.shapes)


def draw_node(node: NodeRecord, report: GradientReport | None, most: int) -> str:
    """Returns the element of a node.

    Args:
        node: the node.
        report: of the gradients, if the backward has run.
        most: the most bytes that a node keeps.
    """
    width, height = measure_node(node)
    classes = ["node", node.kind, *_note(node, report)]
    heat = f"--m:{node.nbytes / most:.3f}" if most and node.nbytes else "--m:0"
    parts = [f'<g class="{" ".join(classes)}" data-n="{node.number}" style="{heat}">']
    parts.append(f"<title>{escape(_describe(node))}</title>")
    radius = height / 2 if node.is_leaf else 7
    parts.append(f'<rect class="box" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>')
    if node.is_leaf:
        middle = f'x="{width / 2:.1f}"'
        parts.append(f'<text class="op" {middle} y="15">{escape(clip(node.op))}</text>')
        parts.append(f'<text class="shape" {middle} y="27">{escape(clip(_show_shapes(node)))}</text></g>')
        return "".join(parts)
    namespace, colons, name = clip(node.op).rpartition("::")
    label = f'<tspan class="space">{escape(namespace + colons)}</tspan>{escape(name)}'
    end = f'x="{width - 10:.1f}"'
    parts.append(f'<text class="op" x="10" y="16">{label}</text>')
    if node.nbytes:
        parts.append(f'<text class="bytes" {end} y="16">{format_bytes(node.nbytes)}</text>')
    parts.append(f'<text class="shape" x="10" y="30">{escape(clip(_show_shapes(node)))}</text>')
    parts.append(f'<text class="line" {end} y="30">{escape(node.place)}</text>')
    if node.nbytes:
        full = width - 20
        parts.append(f'<rect class="rail" x="10" y="35.5" width="{full:.1f}" height="2" rx="1"/>')
        bar = max(full * node.nbytes / most, 2.0)
        parts.append(f'<rect class="bar" x="10" y="35.5" width="{bar:.1f}" height="2" rx="1"/>')
    if node.hooks:
        parts.append(f'<circle class="hook" cx="{width:.1f}" cy="0" r="5"/>')
    return "".join([*parts, "</g>"])


def _note(node: NodeRecord, report: GradientReport | None) -> list[str]:
    if report is None:
        return []
    if report.first is not None and report.first.node == node.number:
        return ["first-bad"]
    return ["bad"] if report.is_bad(node.number) else []


def _describe(node: NodeRecord) -> str:
    """Returns the text that a pointer over a node shows."""
    lines = [f"{node.name}  {_show_shapes(node)}"]
    if node.place:
        lines.append(node.place)
    lines += [f"keeps {value.name}: {value.shape}, {format_bytes(value.nbytes)}" for value in node.saved]
    if node.is_freed:
        lines.append("what it kept is freed")
    if node.hooks:
        lines.append(f"{node.hooks} hooks")
    return "\n".join(lines)


def draw_curve(points: Sequence[Point]) -> str:
    """Returns the path through points, which leaves and arrives at each of them downwards."""
    needed = [
        point
        for before, point, after in zip(points, points[1:], points[2:], strict=False)
        if max(abs(before[0] - point[0]), abs(after[0] - point[0])) > 0.5
    ]
    points = [points[0], *needed, points[-1]]
    parts = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in itertools.pairwise(points):
        middle = (y + to_y) / 2
        if abs(x - to_x) < 0.5:
            parts.append(f"L{to_x:.1f} {to_y:.1f}")
        else:
            parts.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
    return "".join(parts)


def classify_edge(start: int, ends: Sequence[int], report: GradientReport | None) -> tuple[str, str]:
    """Returns the classes of the edge from a node to some readers, and its style attribute."""
    if report is None:
        return "edge", ""
    gradients = [report.edges[end, start] for end in ends if (end, start) in report.edges]
    rms = max((gradient.rms for gradient in gradients), default=0.0)
    heat = 0.0
    if report.largest_rms > 0 and rms > 0:
        heat = min(max(0.0, 1 + math.log10(rms / report.largest_rms) / 6), 1.0)
    is_bad = any(gradient.is_bad for gradient in gradients)
    return "edge bad" if is_bad else "edge", f' style="--g:{heat:.3f}"'
