"""The steps of a program, and the values that they pass on.

A value stands for a gradient or another array that is known only when the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oplib.autograd.array_functions.array_function import ArrayFunction


class Value:
    """An array of a program.

    Attributes:
        number: its place among the values of the program.
        aval: its shape and dtype.
    """

    __slots__ = ("aval", "number")

    def __init__(self, number: int, aval: Any) -> None:
        self.number = number
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        return self.aval.dtype


Values = Sequence[Value | None]


@dataclass(frozen=True, slots=True)
class CallStep:
    """Calls the formula of a node.

    Attributes:
        place: the index of the node.
        label: the name of the node, and the number of the call.
        key: stands for the formula. Equal keys are equal formulas.
        function: the formula; None in a replay.
        inputs: operands and given gradients.
        outputs: one for each edge.
    """

    place: int
    label: str
    key: Any
    function: ArrayFunction | None
    inputs: tuple[Value, ...]
    outputs: Values


@dataclass(frozen=True, slots=True)
class AddStep:
    """Adds two arrays."""

    inputs: tuple[Value, Value]
    output: Value


@dataclass(frozen=True, slots=True)
class AccumulateStep:
    """Adds a gradient to the ``grad`` of a leaf.

    Attributes:
        place: the index of the accumulator.
        gradient: what is added.
        held: the ``grad`` before; None if the leaf has none.
        total: the ``grad`` after.
    """

    place: int
    gradient: Value
    held: Value | None
    total: Value


@dataclass(frozen=True, slots=True)
class RetainStep:
    """Stores a gradient in the output of a node that retains it."""

    place: int
    slot: int
    gradient: Value


@dataclass(frozen=True, slots=True)
class HostStep:
    """Runs Python code with concrete Tensors.

    Attributes:
        kind: what is run, see ``host_steps.py``.
        place: the index of the node.
        label: the name of the node, and the number of the call.
        inputs: one list of gradients for each argument.
        outputs: the gradients that it is expected to give.
    """

    kind: str
    place: int
    label: str
    inputs: tuple[Values, ...]
    outputs: Values


Step = CallStep | AddStep | AccumulateStep | RetainStep | HostStep


def arguments_of(step: Any) -> Sequence[Value]:
    """Returns the values that a step reads."""
    if isinstance(step, HostStep):
        return [value for values in step.inputs for value in values if value is not None]
    if isinstance(step, AccumulateStep):
        return (step.gradient,) if step.held is None else (step.held, step.gradient)
    return (step.gradient,) if isinstance(step, RetainStep) else step.inputs


def results_of(step: Any) -> Sequence[Value | None]:
    """Returns the values that a step makes."""
    if isinstance(step, (CallStep, HostStep)):
        return step.outputs
    if isinstance(step, AddStep):
        return (step.output,)
    return (step.total,) if isinstance(step, AccumulateStep) and step.held is not None else ()
