"""The graph in the language of Graphviz."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .groups import Part, group_nodes, list_members
from .node_drawing import format_bytes
from .records import NodeRecord

_STYLES = {
    "built-in": 'shape=box, style="rounded"',
    "custom": 'shape=box, style="rounded,filled", fillcolor="#f0effd", color="#5b5bd6"',
    "parameter": 'shape=ellipse, style="filled", fillcolor="#e6f6ef", color="#0f8a5f"',
    "leaf": 'shape=ellipse, style="dashed", color="#0f8a5f"',
}


def write_dot(nodes: Sequence[NodeRecord]) -> str:
    """Returns the graph for Graphviz, with a cluster for each group. Edges follow the data."""
    lines = ["digraph oplib {", "  rankdir=TB;", '  node [fontname="sans-serif", fontsize=10];']
    lines += _write_parts(group_nodes(nodes), nodes, "  ")
    lines += [f"  {_write_node(node)}" for node in nodes if node.is_leaf]
    for node in nodes:
        lines += [f"  n{target} -> n{node.number};" for target, _ in node.edges if target is not None]
    return "\n".join([*lines, "}", ""])


def _write_parts(parts: Sequence[Part], nodes: Sequence[NodeRecord], indent: str) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if isinstance(part, int):
            lines.append(f"{indent}{_write_node(nodes[part])}")
            continue
        shown = {number for inner in part.parts for number in list_members(inner)}
        lines.append(f"{indent}subgraph cluster_{part.members[0]}_{len(part.members)} {{")
        lines.append(f"{indent}  label={_quote(f'{part.title}  {part.place}')};")
        lines += [f"{indent}  {_write_node(nodes[number])}" for number in part.members if number not in shown]
        lines += [*_write_parts(part.parts, nodes, f"{indent}  "), f"{indent}}}"]
    return lines


def _write_node(node: NodeRecord) -> str:
    facts = [node.op, ", ".join(node.shapes)]
    facts += [format_bytes(node.nbytes)] if node.nbytes else []
    facts += [node.place] if node.place else []
    return f"n{node.number} [label={_quote(chr(10).join(facts))}, {_STYLES[node.kind]}];"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
