"""Scripts: the steps of a program while they are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.nodes.node import Gradients

from .steps import AccumulateStep, HostStep, Step, Value, results_of


class ReplayStopped(Exception):  # noqa: N818  it is no error
    """A replay has arrived at the step that was asked for.

    Attributes:
        step: that step.
        grads: the gradients that its node has received.
    """

    def __init__(self, step: Step, grads: Gradients) -> None:
        super().__init__()
        self.step = step
        self.grads = grads


class Script:
    """Steps and values in the order in which they are written.

    Attributes:
        steps: the steps so far.
        values: the values so far. The inputs come first.
        label: the origin of the next steps: the name of a node and the number of its call.
    """

    def __init__(self, inputs: Sequence[Value], stop: int | None = None) -> None:
        """Starts with the inputs.

        Args:
            inputs: the values that the program gets.
            stop: the number of the step at which a replay stops.
        """
        self.values = list(inputs)
        self.steps: list[Step] = []
        self.label = ""
        self._stop = stop

    def make_value(self, aval: Any) -> Value:
        """Makes the next value."""
        value = Value(len(self.values), aval)
        self.values.append(value)
        return value

    def make_alike(self, values: Sequence[Value | None]) -> list[Value | None]:
        """Makes a value of the same shape for each value, and None for None."""
        return [None if value is None else self.make_value(value.aval) for value in values]

    def emit(self, step: Step, grads: Gradients = ()) -> None:
        """Adds a step; a replay stops here if this is the step that it looks for."""
        if len(self.steps) == self._stop:
            raise ReplayStopped(step, grads)
        self.steps.append(step)

    def move_accumulations(self) -> None:
        """Moves each accumulation right behind the step that makes its gradient. No host step is passed."""
        ordered: list[Step] = []
        for step in self.steps:
            place = len(ordered)
            if isinstance(step, AccumulateStep):
                while place and not _must_follow(step, ordered[place - 1]):
                    place -= 1
            ordered.insert(place, step)
        self.steps = ordered


def _must_follow(step: AccumulateStep, other: Step) -> bool:
    if isinstance(other, (HostStep, AccumulateStep)):
        return True
    return any(value is step.gradient for value in results_of(other))
