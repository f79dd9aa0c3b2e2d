"""The layout of a picture: layers from the inputs down to the loss, and places that cross few edges.

Long edges are cut by invisible vertices, one for each layer that they pass, so that they bend around nodes.
The order in a layer comes from the places of neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from oplib.frozen import frozen

Size = tuple[float, float]
Point = tuple[float, float]

MOST_VERTICES = 3_000
"""The most vertices with the bends; the edges that are left then are drawn straight."""

LONGEST_EDGE = 30
"""The most layers that an edge passes around nodes; a longer one is drawn straight."""

GAP_X, GAP_Y = 22.0, 30.0
_SWEEPS = 10


@frozen
class Layers:
    """The order of boxes in layers.

    Attributes:
        rows: the vertices of each layer, from left to right. Those from ``count`` on are bends of long edges.
        paths: for each edge the vertices that it passes, its ends included.
        count: how many vertices are boxes.
    """

    rows: list[list[int]]
    paths: dict[tuple[int, int], list[int]]
    count: int


@frozen
class PlacedBoxes:
    """The positions of boxes.

    Attributes:
        centers: the centre of each vertex; those from the number of boxes on are bends.
        paths: as in :class:`Layers`.
        width: of everything.
        height: of everything.
    """

    centers: list[Point]
    paths: dict[tuple[int, int], list[int]]
    width: float
    height: float


def make_layers(
    count: int,
    edges: Sequence[tuple[int, int]],
    *,
    tops: Collection[int] = (),
    bottoms: Collection[int] = (),
) -> Layers:
    """Returns boxes in layers, ordered so that few edges cross.

    Args:
        count: how many boxes there are.
        edges: from a box to one below it.
        tops: the boxes of the first layer.
        bottoms: the boxes of the last layer.
    """
    unique = sorted({edge for edge in edges if edge[0] != edge[1]})
    ranks = _rank(count, unique, tops)
    lowest = max((rank for vertex, rank in enumerate(ranks) if vertex not in bottoms), default=0)
    for vertex in bottoms:
        ranks[vertex] = lowest + 1
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=0) + 1)]
    for vertex, rank in enumerate(ranks):
        rows[rank].append(vertex)
    links: list[tuple[int, int]] = []
    paths: dict[tuple[int, int], list[int]] = {}
    vertex = count
    for start, end in sorted(unique, key=lambda edge: ranks[edge[1]] - ranks[edge[0]]):
        between = range(ranks[start] + 1, ranks[end])
        path = [start, end]
        if len(between) <= LONGEST_EDGE and vertex + len(between) <= MOST_VERTICES:
            bends = list(range(vertex, vertex + len(between)))
            for rank, bend in zip(between, bends, strict=True):
                rows[rank].append(bend)
            vertex += len(bends)
            path = [start, *bends, end]
            links += pairwise(path)
        paths[start, end] = path
    return Layers(_order(rows, links, vertex), paths, count)


def _list_neighbours(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Returns for each vertex those above it, where its edges begin, and those below it."""
    above, below = ([list[int]() for _ in range(count)] for _ in range(2))
    for start, end in edges:
        below[start].append(end)
        above[end].append(start)
    return above, below


def _rank(count: int, edges: Sequence[tuple[int, int]], tops: Collection[int]) -> list[int]:
    """Returns the layer of each vertex: below its inputs, and sources right above their first reader."""
    above, below = _list_neighbours(count, edges)
    pending = list(map(len, above))
    ready = [vertex for vertex in range(count) if not pending[vertex]]
    ranks = [0] * count
    order: list[int] = []
    while ready:
        vertex = ready.pop()
        order.append(vertex)
        for end in below[vertex]:
            ranks[end] = max(ranks[end], ranks[vertex] + 1)
            pending[end] -= 1
            if not pending[end]:
                ready.append(end)
    is_pulled = [False] * count
    for vertex in order:  # what only depends on sources is drawn near to its reader
        is_pulled[vertex] = vertex not in tops and all(
            is_pulled[upper] and len(below[upper]) == 1 for upper in above[vertex]
        )
    for vertex in reversed(order):
        if is_pulled[vertex] and below[vertex]:
            ranks[vertex] = min(ranks[end] for end in below[vertex]) - 1
    highest = min((rank for vertex, rank in enumerate(ranks) if vertex not in tops), default=0)
    for vertex in tops:
        ranks[vertex] = highest - 1
    first = min(ranks, default=0)
    return [rank - first for rank in ranks]


def _order(rows: list[list[int]], links: list[tuple[int, int]], total: int) -> list[list[int]]:
    """Orders each layer by the mean place of the neighbours, from above and from below in turns."""
    above, below = _list_neighbours(total, links)
    at = [0.0] * total
    for row in rows:
        for number, vertex in enumerate(row):
            at[vertex] = float(number)
    for sweep in range(8):
        neighbours = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(
                key=lambda vertex: _mean([at[neighbour] for neighbour in neighbours[vertex]], at[vertex])
            )
            for number, vertex in enumerate(row):
                at[vertex] = float(number)
    return rows


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


# Coordinates. The script of the HTML page does the same when a box is opened or closed.


def place(
    layers: Layers, sizes: Sequence[Size], ports: Mapping[tuple[int, int], Size] | None = None
) -> PlacedBoxes:
    """Returns the places of boxes whose order is known: as near to their neighbours as the sizes allow.

    Args:
        layers: the order.
        sizes: width and height of each box.
        ports: for edges how far from the middle of their first and last box they end.
    """
    total = max((max(row, default=-1) for row in layers.rows), default=-1) + 1
    widths = [sizes[vertex][0] if vertex < layers.count else 10.0 for vertex in range(total)]
    above, below = _list_pulls(layers, total, ports or {})
    x = [0.0] * total
    for row in layers.rows:
        _spread(row, [0.0] * len(row), widths, x)
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        near = above if downwards else below
        for row in layers.rows if downwards else reversed(layers.rows):
            wanted = [_mean([x[other] + by for other, by in near[v]], x[v]) for v in row]
            _spread(row, wanted, widths, x)
    left = min((x[v] - widths[v] / 2 for v in range(total)), default=0.0)
    right = max((x[v] + widths[v] / 2 for v in range(total)), default=0.0)
    centers: list[Point] = [(0.0, 0.0)] * total
    top = 0.0
    for row in layers.rows:
        height = max((sizes[vertex][1] for vertex in row if vertex < layers.count), default=0.0)
        for vertex in row:
            centers[vertex] = (x[vertex] - left, top + height / 2)
        top += height + GAP_Y
    return PlacedBoxes(centers, layers.paths, right - left, max(top - GAP_Y, 0.0))


def _list_pulls(
    layers: Layers, total: int, ports: Mapping[tuple[int, int], Size]
) -> tuple[list[list[tuple[int, float]]], list[list[tuple[int, float]]]]:
    """Returns for each vertex its neighbours above and below, with how far from them it wants to be."""
    above: list[list[Any]] = [[] for _ in range(total)]
    below: list[list[Any]] = [[] for _ in range(total)]
    for edge, path in layers.paths.items():
        of_first, of_last = ports.get(edge, (0.0, 0.0))
        for start, end in pairwise(path):
            by = (of_first if start == edge[0] else 0.0) - (of_last if end == edge[1] else 0.0)
            below[start].append((end, -by))
            above[end].append((start, by))
    return above, below


def _spread(row: Sequence[int], wanted: Sequence[float], widths: Sequence[float], x: list[float]) -> None:
    """Sets the places of a layer: the nearest to the wanted ones, by squares, without overlap.

    Neighbours that would overlap form a block, which stands at the mean of what its members want.
    """
    blocks: list[tuple[float, int]] = []  # the sum of wanted places of the first member, and how many
    offsets: list[float] = []
    for number, vertex in enumerate(row):
        before = row[number - 1] if number else vertex
        step = (widths[before] + widths[vertex]) / 2 + GAP_X if number else 0.0
        offsets.append((offsets[-1] if number else 0.0) + step)
        total, count = wanted[number] - offsets[number], 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            more, members = blocks.pop()
            total, count = total + more, count + members
        blocks.append((total, count))
    number = 0
    for total, count in blocks:
        for _ in range(count):
            x[row[number]] = total / count + offsets[number]
            number += 1
