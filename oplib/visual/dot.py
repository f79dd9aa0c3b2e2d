"""The graph in the language of Graphviz."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .groups import group_nodes
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
    groups = group_nodes(nodes)
    grouped = {number for group in groups for number in group.members if not nodes[number].is_leaf}
    for number, group in enumerate(groups):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quote(f'{group.title}  {group.place}')};"]
        own = [nodes[number] for number in group.members if not nodes[number].is_leaf]
        lines += [f"    {_write_node(node)}" for node in own]
        lines.append("  }")
    lines += [f"  {_write_node(node)}" for node in nodes if node.number not in grouped]
    for node in nodes:
        lines += [f"  n{target} -> n{node.number};" for target, _ in node.edges if target is not None]
    return "\n".join([*lines, "}", ""])


def _write_node(node: NodeRecord) -> str:
    facts = [node.op, ", ".join(node.shapes)]
    facts += [format_bytes(node.nbytes)] if node.nbytes else []
    facts += [node.place] if node.place else []
    return f"n{node.number} [label={_quote(chr(10).join(facts))}, {_STYLES[node.kind]}];"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
