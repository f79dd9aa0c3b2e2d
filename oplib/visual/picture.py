"""The composition of a picture: levels of boxes in boxes, and the edges that pass their borders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias

from .gradients import GradientReport
from .groups import NodeGroup, Part, group_nodes
from .layout import Layers, Size, make_layers
from .node_drawing import clip, format_bytes
from .records import NodeRecord, count_saved

MOST_SHOWN = 300
"""The most nodes and boxes of a static picture; further boxes are closed."""
MOST_KEPT = 20_000
"""The most nodes and boxes that a page can show."""

Port: TypeAlias = tuple[bool, int]
"""Whether a value leaves a box, and the node that made it."""
Key: TypeAlias = "int | Box | Port"


@dataclass(slots=True, eq=False)
class PictureLevel:
    """What stands in a box, or in the whole picture.

    Attributes:
        vertices: first of nodes by their numbers and of boxes, then of the ports.
        parts: how many nodes and boxes there are.
        links: for each edge its two vertices and the node that made the value, with the nodes that read it.
        layers: the order of the vertices.
    """

    vertices: dict[Key, int] = field(default_factory=dict[Key, int])
    parts: int = 0
    links: dict[tuple[int, int, int], list[int]] = field(
        default_factory=dict[tuple[int, int, int], list[int]]
    )
    layers: Layers = field(default_factory=lambda: Layers([], {}, 0))

    def add(self, part: int | Box) -> None:
        """Adds a node or box. It comes before all ports."""
        self.vertices.setdefault(part, len(self.vertices))
        self.parts = len(self.vertices)

    def link(self, start: Key, end: Key, value: int, reader: int) -> None:
        """Adds an edge."""
        at, to = (self.vertices.setdefault(key, len(self.vertices)) for key in (start, end))
        self.links.setdefault((at, to, value), []).append(reader)

    def list_ports(self, *, leaving: bool) -> dict[int, int]:
        """Returns the vertices of the values that enter, or leave."""
        ports = {key: at for key, at in self.vertices.items() if isinstance(key, tuple)}
        return {value: at for (leaves, value), at in ports.items() if leaves is leaving}


@dataclass(slots=True, eq=False)
class Box:
    """A group in a picture.

    Attributes:
        group: the group.
        level: what the open box shows.
        head: the SVG of its title.
        note: the SVG of what enters and leaves, which the closed box shows.
        size: width and height of the closed box.
        least: the least width of the open box.
        is_open: whether it is open at first.
        can_open: whether its level is small enough to be shown.
    """

    group: NodeGroup
    level: PictureLevel = field(default_factory=PictureLevel)
    head: str = ""
    note: str = ""
    size: Size = (0.0, 0.0)
    least: float = 0.0
    is_open: bool = False
    can_open: bool = False


def compose(
    nodes: Sequence[NodeRecord], report: GradientReport | None, most: int = MOST_SHOWN
) -> PictureLevel:
    """Returns the picture of a graph.

    Args:
        nodes: of the graph.
        report: of its gradients. Repetitions are drawn whole where one is not finite.
        most: the most nodes and boxes that are shown at first.
    """
    root = PictureLevel()
    chains: dict[int, Sequence[Box]] = {}
    _fill(root, group_nodes(nodes, folds=report is None or report.first is None), (), nodes, chains)
    for node in nodes:
        for value in {target for target, _ in node.edges if target is not None}:
            if nodes[value].is_leaf:
                chains[value] = chains[node.number]  # each level has its own
            _connect(root, value, node.number, chains)
    _sort(root, is_inner=False)
    shown, ahead = root.parts, _list_boxes(root)
    while ahead:
        shown += sum(box.level.parts for box in ahead)
        for box in ahead:
            _sort(box.level, is_inner=True)
            _write_head(box, nodes)
            box.is_open, box.can_open = shown <= most, shown <= MOST_KEPT
        ahead = [inner for box in ahead for inner in _list_boxes(box.level)]
    return root


def _find_leaves(some: Sequence[NodeRecord], nodes: Sequence[NodeRecord]) -> list[int]:
    """Returns the leaves that some nodes read."""
    targets = dict.fromkeys([target for node in some for target, _ in node.edges if target is not None])
    return [target for target in targets if nodes[target].is_leaf]


def _list_boxes(level: PictureLevel) -> list[Box]:
    return [part for part in level.vertices if isinstance(part, Box)]


def _fill(
    level: PictureLevel,
    parts: Sequence[Part],
    chain: Sequence[Box],
    nodes: Sequence[NodeRecord],
    chains: dict[int, Sequence[Box]],
) -> None:
    """Adds parts to a level, with the leaves that they read: shared leaves would have edges across all."""
    for part in parts:
        if isinstance(part, NodeGroup):
            box = Box(part)
            chains |= dict.fromkeys(part.members, (*chain, box))
            level.add(box)
            _fill(box.level, part.parts, (*chain, box), nodes, chains)
            continue
        chains[part] = chain
        level.add(part)
        for leaf in _find_leaves([nodes[part]], nodes):
            level.add(leaf)


def _connect(root: PictureLevel, value: int, reader: int, chains: Mapping[int, Sequence[Box]]) -> None:
    """Adds the edges from a node to one that reads its result: one on each level that they pass."""
    origin, target = chains[value], chains[reader]
    depth = 0
    while depth < min(len(origin), len(target)) and origin[depth] is target[depth]:
        depth += 1
    level = origin[depth - 1].level if depth else root
    start, end = _step(origin, depth, value), _step(target, depth, reader)
    if end not in level.vertices:
        return  # it is in a turn that is not drawn
    level.link(start if start in level.vertices else (False, value), end, value, reader)
    for at in range(depth + 1, len(origin) + 1):
        inner, start = origin[at - 1].level, _step(origin, at, value)
        if start in inner.vertices:
            inner.link(start, (True, value), value, reader)
    for at in range(depth + 1, len(target) + 1):
        inner, end = target[at - 1].level, _step(target, at, reader)
        if end in inner.vertices:
            inner.link((False, value), end, value, reader)


def _step(chain: Sequence[Box], depth: int, number: int) -> int | Box:
    return chain[depth] if depth < len(chain) else number


def _sort(level: PictureLevel, *, is_inner: bool) -> None:
    """Finds the order of the vertices of a level."""
    tops, bottoms = (level.list_ports(leaving=leaving).values() for leaving in (False, True))
    ends = [(start, end) for start, end, _ in level.links]
    level.layers = make_layers(len(level.vertices), ends, tops=tops, bottoms=bottoms)
    if is_inner and not tops:  # the first layer of other boxes is empty, so that all look alike
        level.layers.rows.insert(0, [])


def _write_head(box: Box, nodes: Sequence[NodeRecord]) -> None:
    """Writes the title of a box, and what enters and leaves."""
    members = [nodes[number] for number in box.group.members]
    saved = count_saved(members)
    facts = f"{box.group.place} · {len(members)} nodes" + (f" · {format_bytes(saved)}" if saved else "")
    names = [nodes[leaf].op for leaf in _find_leaves(members, nodes)]
    enter, leave = (
        ", ".join(dict.fromkeys([nodes[value].shapes[0] for value in box.level.list_ports(leaving=leaving)]))
        for leaving in (False, True)
    )
    given = [enter, ", ".join(names) if len(names) <= 2 else f"{len(names)} parameters"]
    title, note = clip(box.group.title, 48), clip(f"{', '.join(filter(None, given))} → {leave}", 60)
    box.least = max(len(title) * 7.6 + 60, len(facts) * 5.5 + 30)
    box.size = max(box.least, len(note) * 5.5 + 30), 60.0
    box.head = f'<text class="title" x="30" y="19">{escape(title)}</text>'
    box.head += f'<text class="facts" x="14" y="33">{escape(facts)}</text>'
    box.note = f'<text class="facts" x="14" y="48">{escape(note)}</text>'
