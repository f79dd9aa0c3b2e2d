"""Groups of nodes: the calls of functions of the user, which a picture shows as boxes in boxes.

Calls that repeat, and turns of a loop, are one group. A group is a stretch of the recording order, so no edge
leads out of it and back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeAlias

from oplib.frozen import frozen

from .calls import Item, UserCall, find_calls
from .records import NodeRecord, name_place

MOST_ITEMS = 150
"""The most nodes and groups that a group shows before neighbours are joined."""

FEWEST_TURNS = 4
"""The fewest repetitions that a picture shows as one block."""

_LONGEST_PERIOD = 12
_COMPREHENSION = re.compile(r"((\.<locals>)?\.?<(gen|list|dict|set)(expr|comp)>)+$")
_CALLED = re.compile(r"\.(__call__|forward)$")

Part: TypeAlias = "int | NodeGroup"


@dataclass(slots=True, eq=False)
class NodeGroup:
    """Nodes that a picture shows as one box.

    Attributes:
        title: the function, as ``penalty()``, or ``block[3]`` where several are called; with the number of
            calls where they are joined.
        place: file and first line of the function.
        members: the numbers of all nodes.
        parts: the nodes and groups that the open box shows: of a repetition those of the last turn.
    """

    title: str
    place: str
    members: list[int]
    parts: list[Part]


def group_nodes(nodes: Sequence[NodeRecord], *, folds: bool = True) -> list[Part]:
    """Returns the groups of a graph, and the nodes of the function that computed the root, without leaves.

    Args:
        nodes: in the order of the engine.
        folds: whether repetitions are one group.
    """
    page = nodes[0].code if nodes else None
    items = find_calls([node for node in reversed(nodes) if not node.is_leaf])
    return _Grouping(folds).arrange(_splice(items, page), page)


def _splice(items: Iterable[Item], around: CodeType | None) -> list[Item]:
    """Puts what a generator of a function calls, and further calls of the same, in the place of the call."""
    spliced: list[Item] = []
    for item in items:
        is_same = isinstance(item, UserCall) and _find_owner(item.code) == _find_owner(around)
        spliced += _splice(item.items, around) if isinstance(item, UserCall) and is_same else [item]
    return spliced


class _Grouping:
    """Makes groups of calls.

    Args:
        folds: whether repetitions are one group.
    """

    def __init__(self, folds: bool) -> None:
        self._folds = folds
        self._numbers: dict[Any, int] = {}

    def arrange(self, items: Sequence[Item], around: CodeType | None) -> list[Part]:
        """Returns the parts of a call."""
        totals = Counter([item.code for item in items if isinstance(item, UserCall)])
        counts: Counter[CodeType | None] = Counter()
        parts: list[Part] = []
        for stretch, turns in self._fold(items):
            last = stretch[-(len(stretch) // turns) :]
            first = last[0]
            if isinstance(first, NodeRecord) and turns == 1:
                parts.append(first.number)
                continue
            if isinstance(first, UserCall) and len(last) == 1:
                title, code, inner = name_code(first.code), first.code, first.items
                if turns == 1 < totals[code]:
                    title = f"{title.removesuffix('()')}[{counts[code]}]"
            else:
                title, code, inner = f"{name_code(around)} loop", around, last
            title += f" ×{turns}" if turns > 1 else ""
            counts.update([item.code for item in stretch if isinstance(item, UserCall)])
            shown = self.arrange(_splice(inner, code), code)
            members = [node.number for node in _list_nodes(stretch)]
            is_box = len(shown) > 1 or turns > 1
            parts += [NodeGroup(title, name_place(code), members, shown)] if is_box else shown
        return self._join(parts, around)

    def _join(self, parts: list[Part], around: CodeType | None) -> list[Part]:
        """Joins neighbours if there are many."""
        if len(parts) <= MOST_ITEMS:
            return parts
        step = -(-len(parts) // (MOST_ITEMS // 2))
        joined: list[Part] = []
        for at in range(0, len(parts), step):
            some = parts[at : at + step]
            members = [number for part in some for number in list_members(part)]
            titles = Counter([part.title.partition("[")[0] for part in some if isinstance(part, NodeGroup)])
            title = f"{', '.join([name for name, _ in titles.most_common(2)]) or name_code(around)} …"
            joined.append(NodeGroup(title, name_place(around), members, some))
        return joined

    def _fold(self, items: Sequence[Item]) -> list[tuple[Sequence[Item], int]]:
        """Returns items one by one, and those that repeat the ones before them together, with the turns."""
        kinds = list(map(self._find_kind, items)) if self._folds else []
        parts: list[tuple[Sequence[Item], int]] = []
        at = 0
        while at < len(items):
            period, turns = 1, 1
            for length in range(1, _LONGEST_PERIOD + 1):
                times, pattern = 1, kinds[at : at + length]
                while pattern and kinds[at + times * length : at + (times + 1) * length] == pattern:
                    times += 1
                if times >= FEWEST_TURNS and times * length > turns * period:
                    period, turns = length, times
            parts.append((items[at : at + period * turns], turns))
            at += period * turns
        return parts

    def _find_kind(self, item: Item) -> int:
        """Returns a number that equal calls have."""
        if isinstance(item, UserCall):
            fact: Any = item.code, tuple(map(self._find_kind, item.items))
        else:
            fact = item.code, item.line, item.op, item.shapes
        return self._numbers.setdefault(fact, len(self._numbers))


def _list_nodes(items: Iterable[Item]) -> list[NodeRecord]:
    """Returns the nodes of calls, in the order of recording."""
    nodes: list[NodeRecord] = []
    for item in items:
        nodes += _list_nodes(item.items) if isinstance(item, UserCall) else [item]
    return nodes


def list_members(part: Part) -> list[int]:
    """Returns the numbers of the nodes of a part."""
    return part.members if isinstance(part, NodeGroup) else [part]


def _find_owner(code: CodeType | None) -> tuple[str, str] | None:
    """Returns file and name of a function; of a comprehension those of the function around it."""
    if code is None:
        return None
    return code.co_filename, _COMPREHENSION.sub("", code.co_qualname) or "<module>"


def name_code(code: CodeType | None) -> str:
    """Returns the name of a function as pictures show it; of what calls an object, the name of its class."""
    owner = _find_owner(code)
    if owner is None:
        return "unknown line"
    name = _CALLED.sub("", owner[1]).rpartition(".")[2]
    return name if name.startswith("<") else f"{name}()"


@frozen
class FunctionSummary:
    """The nodes that one function of the user recorded.

    Attributes:
        function: its name.
        place: file and first line.
        nodes: how many nodes it recorded.
        nbytes: what they keep for the backward; an array that several functions keep counts for the first.
        ops: the most frequent ops, with their numbers.
    """

    function: str
    place: str
    nodes: int
    nbytes: int
    ops: tuple[tuple[str, int], ...]


def summarize(nodes: Sequence[NodeRecord]) -> list[FunctionSummary]:
    """Returns a summary for each function that recorded nodes; the one with the most nodes comes first."""
    codes: dict[Any, CodeType | None] = {}
    ops: dict[CodeType | None, Counter[str]] = {}
    sizes: Counter[CodeType | None] = Counter()
    seen: set[int] = set()
    for node in reversed(nodes):
        if node.is_leaf:
            continue
        code = codes.setdefault(_find_owner(node.code), node.code)
        ops.setdefault(code, Counter())[node.op] += 1
        for value in node.saved:
            if value.key not in seen:
                seen.add(value.key)
                sizes[code] += value.nbytes
    summaries = [
        FunctionSummary(
            name_code(code),
            name_place(code),
            counts.total(),
            sizes[code],
            tuple(counts.most_common(4)),
        )
        for code, counts in ops.items()
    ]
    return sorted(summaries, key=lambda summary: -summary.nodes)
