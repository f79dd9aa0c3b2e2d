"""Groups of nodes: the calls of one function of the user, which a picture shows as one block.

A node knows the code that recorded it, and not the call. Nodes that were recorded one after another by the
same code form a group; it ends where the code comes back to the instruction at which the group begins, as it
does in the next call and in the next turn of a loop. A group is a stretch of the recording order, so no edge
leads out of it and back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType

from .records import NodeRecord, name_place

LONGEST = 200
"""The most nodes that a group has before it is cut."""

MOST_ITEMS = 150
"""The most groups and single nodes that a picture shows before neighbours are joined."""


@dataclass(slots=True, eq=False)
class NodeGroup:
    """Nodes that a picture shows as one block.

    Attributes:
        title: the function, as ``penalty()``; with the number of calls where several are joined.
        place: file and first line of the function.
        members: the numbers of the nodes, in the order of recording, and then of the leaves that they read.
    """

    title: str
    place: str
    members: list[int] = field(default_factory=list[int])


def group_nodes(nodes: Sequence[NodeRecord]) -> list[NodeGroup]:
    """Returns the groups of a graph. Nodes of the function that computed the root are in none if it is small.

    Args:
        nodes: in the order of the engine.
    """
    calls = [node for node in reversed(nodes) if not node.is_leaf]
    runs = _find_runs(calls)
    page = nodes[0].code if nodes else None
    own = sum(len(run) for run in runs if run[0].code is page)
    are_single = [len(run) == 1 or (run[0].code is page and own <= LONGEST // 2) for run in runs]
    singles = sum(len(run) for run, is_single in zip(runs, are_single, strict=True) if is_single)
    if singles + are_single.count(False) > MOST_ITEMS:
        groups = [_make_group(runs) for runs in _join(runs, len(calls))]
    else:
        groups = [
            _make_group([run]) for run, is_single in zip(runs, are_single, strict=True) if not is_single
        ]
    _add_leaves(nodes, groups)
    return groups


def _find_runs(calls: Sequence[NodeRecord]) -> list[list[NodeRecord]]:
    """Cuts the calls where another code begins, or where one begins again."""
    runs: list[list[NodeRecord]] = []
    varied = False  # whether the run has left its first instruction
    for node in calls:
        run = runs[-1] if runs else None
        is_first = run is not None and run[0].location == node.location
        if run is None or run[0].code is not node.code or (is_first and varied) or len(run) == LONGEST:
            runs.append([node])
            varied = False
            continue
        run.append(node)
        varied = varied or not is_first
    return runs


def _join(runs: Sequence[list[NodeRecord]], count: int) -> list[list[list[NodeRecord]]]:
    """Joins neighbouring runs, so that few groups of about equal size remain."""
    size = max(-(-count // (MOST_ITEMS // 2)), LONGEST)
    joined: list[list[list[NodeRecord]]] = []
    held = size
    for run in runs:
        if held + len(run) > size:
            joined.append([])
            held = 0
        joined[-1].append(run)
        held += len(run)
    return joined


def _make_group(runs: Sequence[Sequence[NodeRecord]]) -> NodeGroup:
    counts: Counter[CodeType | None] = Counter()
    for run in runs:
        counts[run[0].code] += 1
    title = ", ".join(
        name_code(code) + (f" ×{times}" if times > 1 else "") for code, times in counts.most_common(2)
    )
    title += f" and {len(counts) - 2} more" if len(counts) > 2 else ""
    code = counts.most_common(1)[0][0]
    return NodeGroup(title, name_place(code), [node.number for run in runs for node in run])


def name_code(code: CodeType | None) -> str:
    """Returns the name of a function as pictures show it."""
    if code is None:
        return "unknown line"
    return code.co_name if code.co_name.startswith("<") else f"{code.co_name}()"


def _add_leaves(nodes: Sequence[NodeRecord], groups: Sequence[NodeGroup]) -> None:
    """Puts a leaf into each group that reads it, because edges from a shared leaf would cross everything."""
    for group in groups:
        read = [target for number in group.members for target, _ in nodes[number].edges]
        group.members += dict.fromkeys(
            number for number in read if number is not None and nodes[number].is_leaf
        )


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
