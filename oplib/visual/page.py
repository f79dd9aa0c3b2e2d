"""The page of a graph: one HTML file with the data, the style and the script that shows them."""

from __future__ import annotations

import json
import linecache
from collections.abc import Sequence
from typing import Any

from oplib.markup import escape, make_page

from .gradients import EdgeStatistics, GradientReport
from .groups import summarize
from .node_drawing import classify_edge, draw_node, format_bytes, measure_node
from .picture import Box, PictureLevel, compose
from .records import NodeRecord, count_saved
from .svg import draw_arrows, read_asset

MOST_DETAILED = 20_000
"""The most nodes whose details the page holds."""

MOST_OPEN = 40
"""The most nodes and boxes that the page shows at first."""

_AROUND = 3


def write_page(
    nodes: Sequence[NodeRecord], report: GradientReport | None, label: str, facts: Sequence[str]
) -> str:
    """Returns the HTML of a graph.

    Args:
        nodes: its records.
        report: of its gradients, if its backward has run.
        label: of the loss.
        facts: shown beside the numbers of nodes and bytes.
    """
    most = max((node.nbytes for node in nodes), default=0)
    data = {
        "level": _pack_level(compose(nodes, report, MOST_OPEN), nodes, report, most),
        "nodes": _pack_nodes(nodes, report) if len(nodes) <= MOST_DETAILED else {},
        "sources": _pack_sources(nodes) if len(nodes) <= MOST_DETAILED else {},
        "curve": _pack_curve(nodes),
        "first": None if report is None or report.first is None else report.first.node,
        "functions": [
            [summary.function, summary.place, summary.nodes, format_bytes(summary.nbytes), summary.ops]
            for summary in summarize(nodes)
        ][:40],
        "ran": report is not None,
    }
    chips = [f"<b>{sum(not node.is_leaf for node in nodes):,}</b> nodes"]
    chips.append(f"<b>{sum(node.is_leaf for node in nodes):,}</b> leaves")
    chips.append(f"saved <b>{format_bytes(count_saved(nodes))}</b>")
    chips += [f"<b>{escape(fact)}</b>" for fact in facts]
    shown = "".join(f'<span class="chip">{chip}</span>' for chip in chips)
    if report is not None and report.first is not None:
        reached = f"<b>{report.reached} of {report.leaf_count}</b>"
        shown += f'<span class="chip alarm">not finite: {reached} gradients</span>'
    parts = {
        "chips": shown,
        "arrows": draw_arrows(),
        "data": _embed(data),
        "script": read_asset("page.js"),
    }
    page = read_asset("page.html")
    for name, part in parts.items():
        page = page.replace(f"<!--{name}-->", part, 1)
    return make_page(f"oplib graph · {label}", page, read_asset("graph.css") + read_asset("page.css"))


def _embed(data: Any) -> str:
    """Returns data as JSON for a script. A name of the user can neither end the script nor comment it out."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("</", "<\\/").replace("<!", "\\u003c!")


def _pack_level(
    level: PictureLevel, nodes: Sequence[NodeRecord], report: GradientReport | None, most: int
) -> dict[str, Any]:
    """Returns what stands in a box, or in the whole picture."""
    parts: list[Any] = []
    for part in level.vertices:
        if isinstance(part, int):
            node = nodes[part]
            parts.append({"size": measure_node(node), "body": draw_node(node, report, most), "node": part})
        elif isinstance(part, Box):
            parts.append(
                {
                    "size": part.size,
                    "least": part.least,
                    "head": part.head,
                    "note": part.note,
                    "open": part.is_open,
                    "title": part.group.title,
                    "facts": f"{part.group.place} · {len(part.group.members):,} nodes",
                    "members": part.group.members,
                    "level": _pack_level(part.level, nodes, report, most) if part.can_open else None,
                }
            )
    return {
        "parts": parts,
        "total": len(level.vertices),
        "rows": level.layers.rows,
        "paths": list(level.layers.paths.values()),
        "links": [[*link, *classify_edge(link[2], readers, report)] for link, readers in level.links.items()],
        "enter": level.list_ports(leaving=False),
        "leave": level.list_ports(leaving=True),
    }


def _pack_nodes(nodes: Sequence[NodeRecord], report: GradientReport | None) -> list[Any]:
    packed: list[Any] = []
    for node in nodes:
        entry: dict[str, Any] = {
            "op": node.op,
            "name": node.name,
            "kind": node.kind,
            "shapes": node.shapes,
            "file": node.code and node.code.co_filename,
            "line": node.line,
            "function": node.code and node.code.co_name,
            "place": node.place,
            "saved": [[value.name, value.shape, format_bytes(value.nbytes)] for value in node.saved],
            "freed": node.is_freed,
            "hooks": node.hooks,
        }
        if report is not None:
            for side, gradients in (("arrives", report.arrives), ("leaves", report.leaves)):
                entry[side] = list(map(_pack_statistics, gradients.get(node.number, ())))
            if report.first is not None and report.first.node == node.number:
                entry["first"] = report.first.text
        packed.append({key: value for key, value in entry.items() if value})
    return packed


def _pack_statistics(gradient: EdgeStatistics | None) -> list[Any] | None:
    if gradient is None:
        return None
    return [gradient.shape, f"{gradient.rms:.2e}", f"{gradient.largest:.2e}", gradient.nans + gradient.infs]


def _pack_sources(nodes: Sequence[NodeRecord]) -> dict[str, dict[int, str]]:
    """Returns the lines around those that recorded nodes, by file and number."""
    sources: dict[str, dict[int, str]] = {}
    seen: set[tuple[str, int]] = set()
    for node in nodes:
        if node.code is None or node.line is None:
            continue
        name = node.code.co_filename
        if (name, node.line) in seen:
            continue
        seen.add((name, node.line))
        lines = sources.setdefault(name, {})
        for number in range(max(node.line - _AROUND, 1), node.line + _AROUND + 1):
            if text := linecache.getline(name, number).rstrip():
                lines[number] = text[:200]
    return sources


def _pack_curve(nodes: Sequence[NodeRecord], most: int = 1_000) -> list[Any]:
    """Returns the bytes that are held after each call, in the order of recording: number, op, total, more."""
    seen: set[int] = set()
    total = 0
    points: list[Any] = []
    for node in reversed(nodes):
        if node.is_leaf:
            continue
        more = 0
        for value in node.saved:
            if value.key not in seen:
                seen.add(value.key)
                more += value.nbytes
        total += more
        points.append([node.number, node.op, total, more])
    step = -(-len(points) // most) or 1
    return points[step - 1 :: step] if step > 1 else points
