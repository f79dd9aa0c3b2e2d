"""The static picture: one SVG with its own style, light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

from oplib.frozen import frozen

from .gradients import GradientReport
from .layout import GAP_Y, Point, Size, place
from .node_drawing import classify_edge, draw_curve, draw_node, measure_node
from .picture import Box, PictureLevel, compose
from .records import NodeRecord

MARGIN, PAD, HEAD = 24.0, 16.0, 40.0


def read_asset(name: str) -> str:
    """Returns the text of a file of this package."""
    return files("oplib.visual").joinpath(name).read_text(encoding="utf-8")


def draw_svg(nodes: Sequence[NodeRecord], report: GradientReport | None, label: str) -> str:
    """Returns the SVG of a graph.

    Args:
        nodes: its records.
        report: of its gradients, if its backward has run.
        label: for readers of screens.
    """
    drawing = _Drawer(nodes, report).draw_level(compose(nodes, report))
    width, height = drawing.size[0] + 2 * MARGIN, drawing.size[1] + 2 * MARGIN
    view = "nan" if report is not None and report.first is not None else "ops"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="oplib-graph view-{view}" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}" role="img" '
        f'aria-label="{escape(label)}" style="max-width:100%"><style>{read_asset("graph.css")}</style>'
        f'<rect class="paper" x="{-MARGIN:g}" y="{-MARGIN:g}" width="{width:.1f}" height="{height:.1f}"/>'
        f"{draw_arrows()}{drawing.text}</svg>"
    )


def draw_arrows() -> str:
    """Returns the definitions of the heads of edges."""
    shape = '<path d="M0 0L8 4L0 8z"/></marker>'
    size = 'viewBox="0 0 8 8" refX="5" refY="4" markerWidth="8" markerHeight="8"'
    size += ' markerUnits="userSpaceOnUse" orient="auto"'
    return (
        f'<defs><marker id="oplib-arrow" class="head" {size}>{shape}'
        f'<marker id="oplib-arrow-bad" class="head bad" {size}>{shape}</defs>'
    )


@frozen
class _Drawing:
    """An element from its upper left corner, and how far from its middle values enter and leave it."""

    size: Size
    text: str
    enter: Mapping[int, float]
    leave: Mapping[int, float]


class _Drawer:
    """Draws levels. The script of the page does the same when a box is opened or closed."""

    def __init__(self, nodes: Sequence[NodeRecord], report: GradientReport | None) -> None:
        self._nodes, self._report = nodes, report
        self._most = max((node.nbytes for node in nodes), default=0)

    def draw_level(self, level: PictureLevel, box: Box | None = None) -> _Drawing:
        """Draws what stands in an open box, or in the whole picture."""
        keys = list(level.vertices)[: level.parts]
        parts = [self._draw_part(key) for key in keys]
        ports = [level.list_ports(leaving=leaving) for leaving in (False, True)]
        ends = parts + [_Drawing((10.0, 0.0), "", {}, {})] * (len(level.vertices) - len(parts))
        shifts = {
            (start, to): (ends[start].leave.get(value, 0.0), ends[to].enter.get(value, 0.0))
            for start, to, value in level.links
        }
        layout = place(level.layers, [end.size for end in ends], shifts)
        (width, height), across, down = (layout.width, layout.height), 0.0, 0.0
        if box is not None:
            width, down = max(width + 2 * PAD, box.least), HEAD - GAP_Y + 8
            across, height = (width - layout.width) / 2, height + down + (0.0 if ports[1] else PAD)
        points = [(x + across, y + down) for x, y in layout.centers]
        for vertices, y in zip(ports, (0.0, height + 1), strict=True):
            for at in vertices.values():
                points[at] = points[at][0], y
        frames, bodies = list[str](), list[str]()
        for key, part, (x, y) in zip(keys, parts, points, strict=False):
            at = f'transform="translate({x - part.size[0] / 2:.1f} {y - part.size[1] / 2:.1f})"'
            if isinstance(key, Box):
                kind = "open" if key.is_open else "closed"
                rect = f'<rect class="frame" width="{part.size[0]:.1f}" height="{part.size[1]:.1f}" rx="12"/>'
                frames.append(f'<g class="border {kind}" {at}>{rect}</g>')
                at = f'class="block {kind}" {at}'
            bodies.append(f"<g {at}>{part.text}</g>")
        frames += self._draw_edges(
            level, [[points[at] for at in path] for path in layout.paths.values()], ends
        )
        enter, leave = ({value: points[at][0] - width / 2 for value, at in some.items()} for some in ports)
        return _Drawing((width, height), "".join([*frames, *bodies]), enter, leave)

    def _draw_edges(
        self, level: PictureLevel, paths: Sequence[Sequence[Point]], ends: Sequence[_Drawing]
    ) -> list[str]:
        """Draws edges; from a closed box one stands for several."""
        of_link = dict(zip(level.layers.paths, paths, strict=True))
        drawn: dict[tuple[int, int, int], str] = {}
        for (start, to, value), readers in level.links.items():
            first, *bends, last = of_link[start, to]
            origin, target = ends[start], ends[to]
            path = [(first[0] + origin.leave.get(value, 0.0), first[1] + origin.size[1] / 2), *bends]
            path.append((last[0] + target.enter.get(value, 0.0), last[1] - target.size[1] / 2 - 1))
            classes, style = classify_edge(value, readers, self._report)
            classes += " out" if target.enter or not target.text else ""
            key = start, to, -1 if origin.text and not origin.leave else value
            if key not in drawn or "bad" in classes:
                drawn[key] = f'<path class="{classes}"{style} d="{draw_curve(path)}"/>'
        return list(drawn.values())

    def _draw_part(self, part: object) -> _Drawing:
        if isinstance(part, Box):
            inner = (
                self.draw_level(part.level, part) if part.is_open else _Drawing(part.size, part.note, {}, {})
            )
            fold = f'<text class="fold" x="14" y="19">{"▾" if part.is_open else "▸"}</text>'
            return _Drawing(inner.size, f"{inner.text}{fold}{part.head}", inner.enter, inner.leave)
        node = self._nodes[part] if isinstance(part, int) else self._nodes[0]
        return _Drawing(measure_node(node), draw_node(node, self._report, self._most), {}, {})
