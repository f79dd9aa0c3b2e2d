"""The program of a compiled function: operands, effects, donated buffers, cost, memory, and jaxpr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from oplib.errors import ArgumentTypeError, describe
from oplib.tracebacks import entry_point
from oplib.transforms.jit.function import JitFunction

from .node_drawing import format_bytes
from .report import Report, Table

_MEMORY = {
    "arguments": "argument_size_in_bytes",
    "results": "output_size_in_bytes",
    "donated": "alias_size_in_bytes",
    "temporary": "temp_size_in_bytes",
    "code": "generated_code_size_in_bytes",
}


@dataclass(frozen=True)
class ProgramReport(Report):
    """The program that a compiled function runs for some arguments. Make it with :func:`program`.

    Attributes:
        name: of the function.
        operands: name, shape, and whether the buffer is donated, of each Tensor that it reads or writes.
        effects: what a call changes, and how.
        cost: what XLA estimates, such as ``flops``; empty where the platform does not tell.
        memory: bytes of arguments, results, donated buffers, temporary buffers and code; empty likewise.
        jaxpr: the text of the traced program.
    """

    name: str
    operands: Sequence[tuple[str, str, bool]]
    effects: Sequence[tuple[str, str]]
    cost: Mapping[str, float]
    memory: Mapping[str, int]
    jaxpr: str

    def _show_title(self) -> str:
        return f"program of {self.name}"

    def __str__(self) -> str:
        return f"{super().__str__()}\n\njaxpr\n{self.jaxpr}"

    def _list_tables(self) -> list[Table]:
        operands = [[name, shape, "donated" if donated else ""] for name, shape, donated in self.operands]
        memory = [[name, format_bytes(count)] for name, count in self.memory.items()]
        cost = [[name, f"{value:,.0f}"] for name, value in self.cost.items()]
        return [
            ("operands", ("name", "type", "buffer"), operands),
            ("effects", ("name", "effect"), self.effects),
            ("cost", (), cost),
            ("memory", (), memory),
        ]

    def _write_rest(self) -> str:
        return f"<details><summary><h2>jaxpr</h2></summary><pre>{escape(self.jaxpr)}</pre></details>"


@entry_point
def program(step: Any, *args: Any, **kwargs: Any) -> ProgramReport:
    """Returns what a compiled function runs for some arguments. It compiles the program, and runs nothing.

    Args:
        step: a function that ``oplib.jit`` has made.
        *args: its arguments.
        **kwargs: its arguments by name.

    Returns:
        A report with ``operands``, ``effects``, ``cost``, ``memory`` and ``jaxpr``; ``str`` and ``html()``
        show all of them.

    Raises:
        ArgumentTypeError: ``step`` is no function of ``oplib.jit``.

    Example:
        >>> import oplib
        >>> weight = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> @oplib.jit
        ... def step(x):
        ...     with oplib.no_grad():
        ...         weight.sub_(x, alpha=0.5)
        >>> oplib.visual.program(step, oplib.ones(2)).effects
        [('weight', 'is written')]
    """
    if not isinstance(step, JitFunction):
        raise ArgumentTypeError(
            f"program: expected a function of oplib.jit. Got {describe(step)} of type {type(step).__name__}. "
            "Give oplib.jit(function)."
        )
    arguments = step._binder.bind(step.__wrapped__, args, kwargs)

    def read(program: Any, inputs: Any, _: Any) -> ProgramReport:
        traced = program.trace(inputs)
        compiled = traced.lower().compile()
        memory = compiled.memory_analysis()
        sizes = {name: getattr(memory, attribute, None) for name, attribute in _MEMORY.items()}
        return ProgramReport(
            step.__name__,
            program.describe_operands(),
            program.describe_effects(),
            _list_cost(compiled.cost_analysis()),
            {name: int(size) for name, size in sizes.items() if size is not None},
            traced.jaxpr.pretty_print(use_color=False),  # `str` has escape codes in a terminal or notebook
        )

    return step._serve(arguments, read)


def _list_cost(cost: Any) -> dict[str, float]:
    """Returns the totals of XLA's estimate, without those of single operands."""
    first: Any = cost[0] if isinstance(cost, (list, tuple)) and cost else cost
    totals = ("flops", "transcendentals", "bytes accessed")
    return {name: float(first[name]) for name in totals if name in (first or {})}
