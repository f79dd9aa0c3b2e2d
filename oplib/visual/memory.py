"""The memory of a process: the live arrays, and what keeps each of them."""

from __future__ import annotations

import gc
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from oplib.autograd.nodes.locations import locate_line
from oplib.autograd.nodes.node import TapeNode
from oplib.errors import describe
from oplib.frozen import frozen
from oplib.tensor import Tensor
from oplib.tracebacks import entry_point
from oplib.transforms.jit.call_program import Program

from .node_drawing import format_bytes
from .records import name_op_of, name_place
from .referrers import Referrers
from .report import Report, Table

_KINDS = (Tensor, TapeNode, Program)
_MOST_SHOWN = 20
_HEADS = ("bytes", "arrays", "op and line", "kept by")
_CONSTANTS = "the programs of oplib.jit: "
_INDEX = re.compile(r"(\[[^]]*\])")


@frozen
class MemoryRow:
    """Live arrays that are alike.

    Attributes:
        nbytes: of all of them.
        count: how many there are.
        shape: shape and dtype of each.
        made: op and line that made or saved them; empty where nothing has noted it.
        holder: what keeps them. An index is ``[…]`` where the arrays differ in it.
    """

    nbytes: int
    count: int
    shape: str
    made: str
    holder: str


@dataclass(frozen=True)
class MemoryReport(Report):
    """The live arrays of the process, the largest first. Make it with :func:`memory`.

    Attributes:
        rows: arrays of one shape that one op made and one list keeps are one row.
    """

    rows: Sequence[MemoryRow]

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(row.nbytes for row in self.rows)

    def _show_title(self) -> str:
        return f"live arrays: {sum(row.count for row in self.rows):,}, {format_bytes(self.nbytes)}"

    def _list_tables(self) -> list[Table]:
        rows = [
            [format_bytes(row.nbytes), f"{row.count} × {row.shape}", row.made or "–", row.holder]
            for row in self.rows[:_MOST_SHOWN]
        ]
        return [("", _HEADS, rows)]


@entry_point
def memory() -> MemoryReport:
    """Returns the live arrays of the process, and what keeps each of them.

    Garbage is collected first. Nothing else changes, and no array is read. Arrays of one shape that one op
    made and one list keeps are one row.

    Returns:
        A report with ``rows`` and ``nbytes``; ``str`` shows the 20 largest rows, ``html()`` and
        ``save(path)`` too.

    Example:
        >>> import oplib
        >>> weight = oplib.ones(1000, requires_grad=True)
        >>> losses = [(weight * 2).exp().sum() for _ in range(3)]
        >>> rows = [row for row in oplib.visual.memory().rows if "losses" in row.holder]
        >>> rows[0].count, rows[0].shape, rows[0].holder
        (3, 'f32[1000]', 'saved for the backward of losses[…]')
    """
    gc.collect()
    arrays = jax.live_arrays()
    referrers = Referrers()
    alike: dict[tuple[str, str, str], list[tuple[int, str]]] = {}
    for array in (*arrays, *referrers.numpy_arrays):
        made, holder = _describe(referrers.find(array), referrers)
        if isinstance(array, jax.Array) or holder.startswith(_CONSTANTS):
            key = describe(array), made, _INDEX.sub("[…]", holder)
            alike.setdefault(key, []).append((array.nbytes, holder))
    rows: list[MemoryRow] = []
    for (shape, made, _), held in alike.items():
        columns = zip(*[_INDEX.split(name) for _, name in held], strict=True)
        holder = "".join([column[0] if len(set(column)) == 1 else "[…]" for column in columns])
        rows.append(MemoryRow(sum(nbytes for nbytes, _ in held), len(held), shape, made, holder))
    return MemoryReport(sorted(rows, key=lambda row: (-row.nbytes, row.holder)))


def _describe(way: Sequence[Any], referrers: Referrers) -> tuple[str, str]:
    """Returns op and line of the array at the end of a way, and what keeps it."""
    marks = [index for index, one in enumerate(way) if issubclass(type(one), _KINDS)]
    if not marks:
        return "", referrers.name(way) or "no name: a cache of oplib or JAX"
    last = way[marks[-1]]
    if isinstance(last, Program):
        return "", f"{_CONSTANTS}{last._name}"
    nodes = [index for index in marks if isinstance(way[index], TapeNode)]
    name = (
        re.sub(r"\._grad\b", ".grad", referrers.name(way[: nodes[0] if nodes else marks[-1] + 1]))
        or "no name"
    )
    if way[-2] is getattr(last, "_grad", None):  # small gradients that nobody has read are in one array
        name += ".grad"
    node: Any = last._grad_fn if isinstance(last, Tensor) else last
    return _show_node(node), f"saved for the backward of {name}" if nodes else name


def _show_node(node: Any) -> str:
    location = getattr(node, "_location", None)
    return "" if location is None else f"{name_op_of(node)[0]}, {name_place(*locate_line(location))}"
