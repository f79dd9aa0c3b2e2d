"""The steps of a program, and the values that they pass on.

A value stands for a gradient or another array that is known only when the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask


class Value:
    """An array of a program.

    Attributes:
        number: its index among the values of the program.
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


Values = Sequence[Value | None]


@dataclass(frozen=True, slots=True)
class CallStep:
    """Calls the formula of a node.

    Attributes:
        index: of the node.
        call: the number of the call of the node.
        label: the name of the node, and the number of the call.
        key: stands for the formula. Equal keys are equal formulas.
        function: the formula.
        arguments: operands and given gradients.
        results: one for each edge.
    """

    index: int
    call: int
    label: str
    key: Any
    function: ArrayFunction
    arguments: Sequence[Value]
    results: Values


@dataclass(frozen=True, slots=True)
class AddStep:
    """Adds two arrays."""

    arguments: tuple[Value, Value]
    results: tuple[Value]


@dataclass(frozen=True, slots=True)
class StoreStep:
    """Stores a gradient in a leaf, or in the output of a node that retains it.

    Attributes:
        index: of the node.
        slot: the slot of the output that retains its gradient.
        gradient: the gradient; for a leaf with a ``grad`` the sum.
        held: the ``grad`` of a leaf before; None if it has none.
        leaf: the facts about the leaf, see ``describe_leaf``; None for a retained gradient.
    """

    index: int
    slot: int
    gradient: Value
    held: Value | None = None
    leaf: tuple[Any, ...] | None = None

    @property
    def arguments(self) -> Sequence[Value]:
        """The values that the step reads."""
        return (self.gradient,)

    @property
    def results(self) -> Values:
        """The step makes no value."""
        return ()


@dataclass(frozen=True, slots=True)
class HostStep:
    """Runs Python code with concrete Tensors.

    Attributes:
        kind: ``tensor`` for the tensor hooks of a node that does not run; ``pre`` for all hooks before a
            node; ``node`` for a node with the hooks after it.
        index: of the node.
        call: the number of the call of the node.
        gradients: the gradients that the code gets.
        results: the gradients that it is expected to give.
        is_read: for each result whether it is used.
    """

    kind: str
    index: int
    call: int
    gradients: Values
    results: Values
    is_read: Mask

    @property
    def arguments(self) -> Sequence[Value]:
        """The values that the step reads."""
        return [value for value in self.gradients if value is not None]


Step = CallStep | AddStep | StoreStep | HostStep
