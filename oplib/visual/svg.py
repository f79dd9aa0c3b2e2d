"""The static picture: one SVG with its own style, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from .gradients import GradientReport
from .layout import PlacedBoxes, Size, place
from .node_drawing import classify_edge, draw_curve
from .picture import Picture, compose, find_port, find_shifts, find_size, join_ends
from .records import NodeRecord

MARGIN = 24.0


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
    picture = compose(nodes, report, is_static=True)
    opens = [block.group is None or block.can_open for block in picture.blocks]
    sizes = [find_size(block, is_open=is_open) for block, is_open in zip(picture.blocks, opens, strict=True)]
    layout = place(picture.layers, sizes, find_shifts(picture, opens))
    parts = _draw_edges(picture, opens, layout, sizes, report)
    centers = layout.centers[: len(sizes)]
    for block, is_open, (x, y), (width, height) in zip(picture.blocks, opens, centers, sizes, strict=True):
        at = f"translate({x - width / 2:.1f} {y - height / 2:.1f})"
        if block.group is None:
            parts.append(f'<g transform="{at}">{block.body}</g>')
            continue
        frame = f'<rect class="frame" width="{width:.1f}" height="{height:.1f}" rx="12"/>'
        mark = "▾" if is_open else "▸"
        fold = f'<text class="fold" x="14" y="19">{mark}</text>'
        body = block.body if is_open else ""
        kind = "open" if is_open else "closed"
        parts.insert(0, f'<g class="block {kind}" transform="{at}">{frame}</g>')
        parts.append(f'<g class="block" transform="{at}">{fold}{block.head}{body}</g>')
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    view = "nan" if report is not None and report.first is not None else "ops"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="oplib-graph view-{view}" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}" role="img" '
        f'aria-label="{escape(label)}" style="max-width:100%"><style>{read_asset("graph.css")}</style>'
        f'<rect class="paper" x="{-MARGIN:g}" y="{-MARGIN:g}" width="{width:.1f}" height="{height:.1f}"/>'
        f"{draw_arrows()}{''.join(parts)}</svg>"
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


def _draw_edges(
    picture: Picture,
    opens: Sequence[bool],
    layout: PlacedBoxes,
    sizes: Sequence[Size],
    report: GradientReport | None,
) -> list[str]:
    """Draws the edges between blocks; between closed blocks one stands for several."""
    drawn: dict[tuple[str, int], str] = {}
    for (start, to), ends in picture.edges.items():
        origin = picture.block_of[start]
        path = [layout.centers[vertex] for vertex in layout.paths[origin, to]]
        for end, block in ((0, origin), (-1, to)):
            shift = find_port(picture.blocks[block], start, is_open=opens[block])
            path[end] = (path[end][0] + shift, path[end][1])
        classes, style = classify_edge(start, ends, report)
        classes += " out" if opens[to] and picture.blocks[to].group else ""
        curve = draw_curve(join_ends(path, sizes[origin], sizes[to]))
        key = (f"n{start}" if opens[origin] else f"b{origin}", to)
        if key not in drawn or "bad" in classes:
            drawn[key] = f'<path class="{classes}"{style} d="{curve}"/>'
    return list(drawn.values())
