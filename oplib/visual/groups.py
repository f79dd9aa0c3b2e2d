"""Groups of nodes: the calls of one function of the user, which a picture shows as one block.

A node knows the code that recorded it, and not the call. Nodes that were recorded one after another by the
same code form a group; it ends where the code comes back to the instruction at which the group begins, as it
does in the next call and in the next turn of a loop. A group is a stretch of the recording order, so no edge
leads out of it and back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeAlias

from .records import NodeRecord, name_place

LONGEST = 200
"""The most nodes that a group has before it is cut."""

MOST_ITEMS = 150
"""The most groups and single nodes that a picture shows before neighbours are joined."""


FEWEST_TURNS = 4
"""The fewest repetitions that a picture shows as one block."""

_LONGEST_PERIOD = 12
_COMPREHENSION = re.compile(r"((\.<locals>)?\.?<(gen|list|dict|set)(expr|comp)>)+$")

Run: TypeAlias = list[NodeRecord]
"""Nodes that one call, or one turn of a loop, has recorded one after another."""


@dataclass(slots=True, eq=False)
class NodeGroup:
    """Nodes that a picture shows as one block.

    Attributes:
        title: the function, as ``penalty()``; with the number of calls where several are joined.
        place: file and first line of the function.
        members: the numbers of the nodes, in the order of recording, and then of the leaves that they read.
        shown: those that the open block shows: of a repetition the last turn.
    """

    title: str
    place: str
    members: list[int]
    shown: list[int]


def group_nodes(nodes: Sequence[NodeRecord], *, folds: bool = True) -> list[NodeGroup]:
    """Returns the groups of a graph. Nodes of the function that computed the root are in none if it is small.

    Args:
        nodes: in the order of the engine.
        folds: whether repetitions are one group.
    """
    runs = _find_runs([node for node in reversed(nodes) if not node.is_leaf])
    parts = _fold(runs) if folds else [([run], 1) for run in runs]
    page = _find_owner(nodes[0].code) if nodes else None
    alone = [runs[0] for runs, turns in parts if turns == 1]
    own = [run for run in alone if _find_owner(run[0].code) == page]
    drawn = own if sum(map(len, own)) <= LONGEST // 2 else []
    singles = {id(run): len(run) for run in [*drawn, *(run for run in alone if len(run) == 1)]}
    grouped = [part for part in parts if id(part[0][0]) not in singles]
    if sum(singles.values()) + len(grouped) > MOST_ITEMS:
        step = -(-len(parts) // (MOST_ITEMS // 2))
        chunks = [parts[at : at + step] for at in range(0, len(parts), step)]
        grouped = [
            chunk[0] if len(chunk) == 1 else ([run for runs, _ in chunk for run in runs], 1)
            for chunk in chunks
        ]
    groups = [_make_group(runs, turns, page) for runs, turns in grouped]
    for group in groups:
        for members in (group.members, group.shown):
            members += _list_leaves(nodes, members)
    return groups


def _fold(runs: Sequence[Run]) -> list[tuple[Sequence[Run], int]]:
    """Returns runs one by one, and those that repeat the runs before them together, with how many turns."""
    numbers: dict[Any, int] = {}
    facts = [tuple([(id(node.code), node.line, node.op, node.shapes) for node in run]) for run in runs]
    kinds = [numbers.setdefault(fact, len(numbers)) for fact in facts]
    parts: list[tuple[Sequence[Run], int]] = []
    at = 0
    while at < len(runs):
        period, turns = 1, 1
        for length in range(1, _LONGEST_PERIOD + 1):
            times, pattern = 1, kinds[at : at + length]
            while kinds[at + times * length : at + (times + 1) * length] == pattern:
                times += 1
            if times >= FEWEST_TURNS and times * length > turns * period:
                period, turns = length, times
        parts.append((runs[at : at + period * turns], turns))
        at += period * turns
    return parts


def _find_runs(calls: Sequence[NodeRecord]) -> list[Run]:
    """Cuts the calls where another code begins, or where one begins again."""
    runs: list[Run] = []
    varied = False  # whether the run has left its first instruction
    for node in calls:
        run = runs[-1] if runs else None
        is_first = run is not None and run[0].location == node.location
        is_other = run is None or _find_owner(run[0].code) != _find_owner(node.code)
        if run is None or is_other or (is_first and varied) or len(run) == LONGEST:
            runs.append([node])
            varied = False
            continue
        run.append(node)
        varied = varied or not is_first
    return runs


def _make_group(runs: Sequence[Run], turns: int, page: Any) -> NodeGroup:
    last = runs[-(len(runs) // turns) :]
    counts = Counter([name_code(run[0].code) for run in last])
    marks = [f"{name} ×{times}" if times > turns == 1 else name for name, times in counts.most_common(2)]
    title = ", ".join(marks) + (f" and {len(counts) - 2} more" if len(counts) > 2 else "")
    if turns > 1:
        is_loop = any(_find_owner(run[0].code) == page for run in last)
        title += f"{' loop' if is_loop else ''} ×{turns}"
    members, shown = ([node.number for run in some for node in run] for some in (runs, last))
    return NodeGroup(title, name_place(last[0][0].code), members, shown)


def _find_owner(code: CodeType | None) -> tuple[str, str] | None:
    """Returns file and name of a function; of a comprehension those of the function around it."""
    if code is None:
        return None
    return code.co_filename, _COMPREHENSION.sub("", code.co_qualname) or "<module>"


def name_code(code: CodeType | None) -> str:
    """Returns the name of a function as pictures show it."""
    owner = _find_owner(code)
    if owner is None:
        return "unknown line"
    name = owner[1].rpartition(".")[2]
    return name if name.startswith("<") else f"{name}()"


def _list_leaves(nodes: Sequence[NodeRecord], members: Sequence[int]) -> list[int]:
    """Returns the leaves that nodes read: edges from a leaf that groups share would cross everything."""
    read = [target for number in members for target, _ in nodes[number].edges if target is not None]
    return [number for number in dict.fromkeys(read) if nodes[number].is_leaf]


@dataclass(frozen=True, slots=True)
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
    ops: dict[CodeType | None, Counter[str]] = {}
    sizes: Counter[CodeType | None] = Counter()
    seen: set[int] = set()
    for node in reversed(nodes):
        if node.is_leaf:
            continue
        ops.setdefault(node.code, Counter())[node.op] += 1
        for value in node.saved:
            if value.key not in seen:
                seen.add(value.key)
                sizes[node.code] += value.nbytes
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
