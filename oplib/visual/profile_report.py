"""The profile of a step: time and saved bytes of each op, forward and backward."""

from __future__ import annotations

import linecache
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import jax

from oplib.autograd.array_functions.masks import pick_given
from oplib.autograd.nodes.locations import Location, find_frame, locate_line
from oplib.library.op_objects.observers import ObservedCall, observing
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.pytree import tree_leaves
from oplib.tensor import Tensor
from oplib.tensor.devices.device import is_abstract
from oplib.tracebacks import entry_point

from .first_nan import has_nan
from .node_drawing import format_bytes
from .records import name_op, name_op_of, name_place, read_saved
from .report import Report, Table
from .traversal import collect_edges, require_step

_HEADS = ("share", "forward", "backward", "calls", "saved")
_MOST_LINES = 20
_OTHER = "(Python, views, compiled programs)"


@dataclass(slots=True)
class ProfileRow:
    """The costs of the calls of one op in a step.

    Attributes:
        op: the name of the op, as pictures show it; or a line of code.
        calls: the number of its calls in the forward.
        forward: seconds in these calls, until their results were there.
        backward: seconds in the nodes that they recorded, and in hooks on these.
        nbytes: the bytes that these nodes keep for the backward; an array of several nodes counts once.
    """

    op: str
    calls: int = 0
    forward: float = 0.0
    backward: float = 0.0
    nbytes: int = 0

    @property
    def seconds(self) -> float:
        """Forward and backward together."""
        return self.forward + self.backward


@dataclass(frozen=True)
class ProfileReport(Report):
    """The costs of a step by op. Make it with :func:`profile`.

    Attributes:
        name: of the step.
        rows: one for each op; the one with the most time comes first.
        lines: likewise for each line of code.
        total: seconds of the whole step.
        first_nan: op and line of the first call whose result has a nan; empty if none has.
    """

    name: str
    rows: Sequence[ProfileRow]
    lines: Sequence[ProfileRow]
    total: float
    first_nan: str

    def _show_title(self) -> str:
        found = f"; {self.first_nan} made the first nan" if self.first_nan else ""
        return f"profile of {self.name}: {_show_seconds(self.total)}{found}"

    def _list_tables(self) -> list[Table]:
        rest = ProfileRow(_OTHER, forward=max(self.total - sum(row.seconds for row in self.rows), 0.0))
        return [
            ("", (title, *_HEADS), self._show(rows))
            for title, rows in (("op", [*self.rows, rest]), ("line", self.lines[:_MOST_LINES]))
        ]

    def _show(self, rows: Sequence[ProfileRow]) -> list[Sequence[str]]:
        return [
            [
                row.op,
                f"{row.seconds / self.total:.0%}",
                _show_seconds(row.forward),
                _show_seconds(row.backward),
                f"{row.calls or ''}",
                format_bytes(row.nbytes) if row.nbytes else "",
            ]
            for row in rows
        ]


def _show_seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds else ""


@entry_point
def profile(step: AnyFunction, *args: Any, **kwargs: Any) -> ProfileReport:
    """Returns time and saved bytes of each op in a step. It calls the step twice: the first call compiles.

    Each op is waited for, so that its time is its own; the step takes longer than without the profile. Ops
    are seen where they run one by one. A function of ``oplib.jit`` is one program, and counts as Python: its
    ops are in the trace of ``jax.profiler``.

    Args:
        step: a function, usually one that computes a loss and calls ``backward``.
        *args: its arguments.
        **kwargs: its arguments by name.

    Returns:
        A report with ``rows`` and ``total``; ``str``, ``html()`` and ``save(path)`` show it.

    Raises:
        ArgumentTypeError: ``step`` cannot be called.

    Example:
        >>> import oplib
        >>> x = oplib.ones(8, 8, requires_grad=True)
        >>> report = oplib.visual.profile(lambda: (x.exp() * x).sum().backward())
        >>> sorted((row.op, row.calls) for row in report.rows), sum(row.nbytes for row in report.rows)
        ([('accumulate', 0), ('exp', 1), ('mul', 1), ('sum', 1)], 512)
    """
    require_step(step, "profile")
    with _Profiler().watching():  # watched calls take a way of their own, which is compiled too
        step(*args, **kwargs)
    profiler = _Profiler()
    start = perf_counter()
    with profiler.watching():
        results = step(*args, **kwargs)
        _wait(results)
        total = perf_counter() - start
    profiler.read_graph(results)
    rows, lines = (
        sorted(each.values(), key=lambda row: -row.seconds) for each in (profiler.rows, profiler.lines)
    )
    return ProfileReport(
        getattr(step, "__name__", type(step).__name__), rows, lines, total, profiler.first_nan
    )


@dataclass(slots=True)
class _Profiler:
    """Collects the rows of one call of a step."""

    rows: dict[str, ProfileRow] = field(default_factory=dict[str, ProfileRow])
    lines: dict[str, ProfileRow] = field(default_factory=dict[str, ProfileRow])
    first_nan: str = ""
    seen: set[Any] = field(default_factory=set[Any])
    """The nodes whose saved values are counted."""
    kept: dict[int, Any] = field(default_factory=dict[int, Any])
    """The saved arrays that are counted, by identity; they live so long that no other takes their place."""
    started: float = 0.0

    @contextmanager
    def watching(self) -> Generator[None]:
        state = modes.state
        before, state.node_hooks = state.node_hooks, (self._start_node, self._end_node)
        try:
            with observing(self._observe):
                yield
        finally:
            state.node_hooks = before

    def _find_rows(self, op: str, location: Location | None) -> list[ProfileRow]:
        line = "unknown line"
        if location is not None:
            code, number = locate_line(location)
            line = f"{name_place(code, number)}  {linecache.getline(code.co_filename, number).strip()}"
        named = (self.rows, op), (self.lines, line)
        return [rows.setdefault(name, ProfileRow(name)) for rows, name in named]

    def _observe(self, call: ObservedCall) -> Any:
        start = perf_counter()
        outcome = call.run()
        _wait(outcome)
        end, frame = perf_counter(), find_frame()
        op, location = name_op(call.overload.name())[0], frame and (frame.f_code, frame.f_lasti)
        rows = self._find_rows(op, location)
        if modes.state.run is None:
            for row in rows:
                row.calls += 1
                row.forward += end - start
        if not self.first_nan and has_nan(call.read(outcome)):
            self.first_nan = f"{op}, {rows[1].op}"
        return outcome

    def _start_node(self, *_: Any) -> None:
        self._count_saved(modes.state.run.node)
        self.started = perf_counter()

    def _end_node(self, grad_inputs: Any, *_: Any) -> None:
        _wait(grad_inputs)
        end, node = perf_counter(), modes.state.run.node
        for row in self._find_rows(_name(node), getattr(node, "_location", None)):
            row.backward += end - self.started

    def read_graph(self, results: Any) -> None:
        """Counts the arrays of the nodes that no backward has run."""
        roots: list[Any] = [result.grad_fn for result in tree_leaves(results) if isinstance(result, Tensor)]
        for node in collect_edges(pick_given(roots)):
            self._count_saved(node)

    def _count_saved(self, node: Any) -> None:
        if node in self.seen:
            return
        self.seen.add(node)
        for _, value in read_saved(node)[0]:
            if hasattr(value, "nbytes") and id(value) not in self.kept:
                self.kept[id(value)] = value
                for row in self._find_rows(_name(node), getattr(node, "_location", None)):
                    row.nbytes += value.nbytes


def _name(node: Any) -> str:
    name = name_op_of(node)[0]
    return "accumulate" if name == "AccumulateGrad" else name


def _wait(values: Any) -> None:
    """Waits for arrays and Tensors. Traced ones have no values to wait for."""
    for leaf in jax.tree_util.tree_leaves(values, is_leaf=lambda value: isinstance(value, Tensor)):
        array = leaf._storage.array if isinstance(leaf, Tensor) else leaf
        if not is_abstract(array):
            jax.block_until_ready(array)
