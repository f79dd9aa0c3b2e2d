"""The composition of a picture: blocks and single nodes, and the nodes inside of each block."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .gradients import GradientReport
from .groups import NodeGroup, group_nodes
from .layout import GAP_Y, Layers, Point, Size, make_layers, place
from .node_drawing import clip, draw_edge, draw_node, format_bytes, measure_node
from .records import NodeRecord, count_saved

PAD, HEAD = 16.0, 40.0
MOST_SHOWN = 300
"""The most drawn nodes of a picture whose blocks are open at first."""
MOST_OPEN = 400
"""The most nodes of a block that can be opened."""


@dataclass(slots=True)
class Block:
    """The content of one vertex of the picture: a group, or a single node.

    Attributes:
        nodes: the numbers of its nodes.
        group: the group; None for a single node.
        ports: for data from outside, by the node that made it, and for data of its own nodes, how far from
            the left side of the open block it enters or leaves.
        open_size: width and height of the open block; those of the node for a single node.
        closed_size: of the closed block.
        body: the SVG of the open block, from its upper left corner.
        head: the SVG of the title, which the closed block has too.
    """

    nodes: list[int]
    group: NodeGroup | None
    ports: dict[int, float]
    open_size: Size
    closed_size: Size
    body: str
    head: str = ""

    @property
    def can_open(self) -> bool:
        """Whether its nodes can be shown."""
        return self.group is not None and bool(self.body)


@dataclass(slots=True)
class Picture:
    """Blocks with their order.

    Attributes:
        blocks: in the order of the engine.
        block_of: the number of the block of each node.
        layers: of the blocks.
        edges: from nodes to other blocks, with the nodes there that read it.
        is_small: all blocks are open at first.
    """

    blocks: list[Block]
    block_of: dict[int, int]
    layers: Layers
    edges: dict[tuple[int, int], list[int]]
    is_small: bool


def compose(
    nodes: Sequence[NodeRecord], report: GradientReport | None, *, is_static: bool = False
) -> Picture:
    """Returns the picture of a graph. The blocks of a large static one cannot be opened."""
    most = max((node.nbytes for node in nodes), default=0)
    groups = group_nodes(nodes, folds=report is None or report.first is None)
    block_of = {number: index for index, group in enumerate(groups) for number in group.members}
    inside = [frozenset(group.shown) for group in groups]
    alone = {target for node in nodes if node.number not in block_of for target, _ in node.edges}
    singles = [
        node for node in nodes if node.number not in block_of or (node.is_leaf and node.number in alone)
    ]
    block_of |= {node.number: index for index, node in enumerate(singles, len(groups))}
    is_small = len(singles) + sum(len(group.shown) for group in groups) <= MOST_SHOWN
    most_open = MOST_OPEN if is_small or not is_static else 0
    edges: dict[tuple[int, int], list[int]] = {}
    entering: list[set[int]] = [set() for _ in groups]
    leaving: list[set[int]] = [set() for _ in groups]
    for node in nodes:
        to = block_of[node.number]
        for target in {target for target, _ in node.edges if target is not None}:
            if to < len(groups) and nodes[target].is_leaf:
                continue  # it is in the group
            origin = block_of[target]
            if to < len(groups) and node.number in inside[to] and target not in inside[to]:
                entering[to].add(target)
            if origin < len(groups) and target in inside[origin] and node.number not in inside[origin]:
                leaving[origin].add(target)
            if origin != to:
                edges.setdefault((target, to), []).append(node.number)
    blocks = [
        _make_block(group, nodes, report, (most, most_open), entering[index], leaving[index])
        for index, group in enumerate(groups)
    ]
    blocks += [_make_single(node, report, most) for node in singles]
    links = [(block_of[start], to) for start, to in edges]
    return Picture(blocks, block_of, make_layers(len(blocks), links), edges, is_small)


def _make_single(node: NodeRecord, report: GradientReport | None, most: int) -> Block:
    size = measure_node(node)
    body = draw_node(node, (size[0] / 2, size[1] / 2), report, most)
    return Block([node.number], None, {}, size, size, body)


def _make_block(
    group: NodeGroup,
    nodes: Sequence[NodeRecord],
    report: GradientReport | None,
    bounds: tuple[int, int],
    entering: Collection[int],
    leaving: Collection[int],
) -> Block:
    members = group.shown
    saved = count_saved(nodes[number] for number in group.members)
    facts = f"{group.place} · {len(group.members)} nodes"
    facts += f" · {format_bytes(saved)}" if saved else ""
    title = clip(group.title, 48)
    width = max(len(title) * 7.6 + 60, len(facts) * 6.0 + 36, 150.0)
    head = f'<text class="title" x="30" y="19">{escape(title)}</text>'
    head += f'<text class="facts" x="14" y="33">{escape(facts)}</text>'
    most, most_open = bounds
    if len(members) > most_open:
        return Block(group.members, group, {}, (width, 46.0), (width, 46.0), "", head)
    inner = _Inside(members, nodes, entering, leaving)
    layout = place(inner.layers, inner.sizes)
    shift = PAD + max(width - 2 * PAD - layout.width, 0.0) / 2, HEAD - GAP_Y + 8
    points = [(x + shift[0], y + shift[1]) for x, y in layout.centers]
    size = max(layout.width + 2 * PAD, width), layout.height + shift[1] + (0.0 if leaving else PAD)
    parts = inner.draw_edges(points, layout.paths, size[1], report)
    parts += [draw_node(nodes[number], points[at], report, most) for at, number in enumerate(members)]
    return Block(group.members, group, inner.find_ports(points), size, (width, 46.0), "".join(parts), head)


class _Inside:
    """The graph inside of a block: its nodes, and a vertex for each value that enters or leaves.

    Args:
        members: the nodes.
        nodes: all nodes.
        entering: the nodes outside whose results are read.
        leaving: the members whose results are read outside.
    """

    def __init__(
        self,
        members: Sequence[int],
        nodes: Sequence[NodeRecord],
        entering: Collection[int],
        leaving: Collection[int],
    ) -> None:
        count = len(members)
        self._members = members
        self._at = {number: at for at, number in enumerate(members)}
        self._inputs = {number: at for at, number in enumerate(sorted(entering), count)}
        self._outputs = {number: at for at, number in enumerate(sorted(leaving), count + len(entering))}
        self._vertices = self._at | self._inputs
        self._links = sorted(
            {
                (self._vertices[target], self._at[number])
                for number in members
                for target, _ in nodes[number].edges
                if target is not None and target in self._vertices
            }
        )
        self._links += [(self._at[number], at) for number, at in self._outputs.items()]
        bends = len(self._inputs) + len(self._outputs)
        self.sizes: list[Size] = [measure_node(nodes[number]) for number in members] + [(10.0, 0.0)] * bends
        self.layers = make_layers(
            len(self.sizes), self._links, tops=self._inputs.values(), bottoms=self._outputs.values()
        )
        if not self._inputs:  # the first layer of other blocks is empty, so that all look alike
            self.layers.rows.insert(0, [])

    def draw_edges(
        self,
        points: Sequence[Point],
        paths: Mapping[tuple[int, int], list[int]],
        height: float,
        report: GradientReport | None,
    ) -> list[str]:
        """Draws the edges between the nodes, from the upper side of the block, and to its lower side."""
        numbers = [*self._members, *self._inputs, *self._outputs]
        count, drawn = len(self._members), list[str]()
        for start, end in self._links:
            path = join_ends(
                [points[vertex] for vertex in paths[start, end]], self.sizes[start], self.sizes[end]
            )
            if start >= count:
                path[0] = (path[0][0], 0.0)
            is_leaving = end >= count
            if is_leaving:
                path[-1] = (path[-1][0], height)
            ends = numbers[start], None if is_leaving else numbers[end]
            drawn.append(draw_edge(path, *ends, report))
        return drawn

    def find_ports(self, points: Sequence[Point]) -> dict[int, float]:
        """Returns where each value enters or leaves."""
        return {number: points[at][0] for number, at in (self._inputs | self._outputs).items()}


def join_ends(path: Sequence[Point], start: Size, end: Size) -> list[Point]:
    """Returns the points of an edge, from the lower side of its first box to the upper side of its last."""
    first, last = path[0], path[-1]
    return [(first[0], first[1] + start[1] / 2), *path[1:-1], (last[0], last[1] - end[1] / 2 - 1)]


def find_size(block: Block, *, is_open: bool) -> Size:
    """Returns the size of a block."""
    return block.open_size if is_open else block.closed_size


def find_shifts(picture: Picture, opens: Sequence[bool]) -> dict[tuple[int, int], Size]:
    """Returns for each edge between blocks how far from their middles it leaves and arrives."""
    shifts: dict[tuple[int, int], Size] = {}
    for start, to in picture.edges:
        origin = picture.block_of[start]
        shifts[origin, to] = (
            find_port(picture.blocks[origin], start, is_open=opens[origin]),
            find_port(picture.blocks[to], start, is_open=opens[to]),
        )
    return shifts


def find_port(block: Block, number: int, *, is_open: bool) -> float:
    """Returns how far from the middle of a block a value enters or leaves it."""
    return block.ports[number] - block.open_size[0] / 2 if is_open and number in block.ports else 0.0
