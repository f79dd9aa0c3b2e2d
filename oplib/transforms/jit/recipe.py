"""Recipes: the parts of a call, so that its function can be traced again with backwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from oplib.errors import TracingError
from oplib.modes import modes
from oplib.tensor import Tensor
from oplib.transforms.tracing.candidates import Candidates
from oplib.transforms.tracing.entries import read_entries, restore_entry
from oplib.transforms.tracing.paths import Walk
from oplib.transforms.tracing.reader import Reader
from oplib.transforms.tracing.snapshot import StateSnapshot

from .call_trace import Trace, tracing
from .operands import ExpectedOperands


class Recipe(NamedTuple):
    """The parts of a call, so that it can be traced again with its backward.

    Attributes:
        function: the function.
        leaves: of its arguments.
        call: runs the function; gets the arrays that stand for the array arguments.
        tensors: the operands.
        held: their arrays at the call.
        starts: key and count of each Generator at the call.
        arrays: the array arguments.
        cotangents: for each backward that was recorded since, its cotangents.
    """

    function: Any
    leaves: Sequence[Any]
    call: Callable[..., Any]
    tensors: Sequence[Tensor]
    held: Sequence[Any]
    starts: Sequence[tuple[Any, int]]
    arrays: Sequence[Any]
    cotangents: tuple[tuple[Any, ...], ...] = ()


InputSource = tuple[str, Any]
"""Where an input of a jaxpr comes from: a field of the recipe, and a place there."""


def list_sources(
    held: Sequence[int | None], generators: int, arrays: int, orders: Sequence[Sequence[Any]] = ()
) -> list[InputSource]:
    """Returns where the inputs of a jaxpr come from.

    Args:
        held: for each storage the place of its operand; None for one that the program does not read.
        generators: how many there are.
        arrays: how many array arguments there are.
        orders: the cotangents of each backward.
    """
    return [
        *[("held", place) for place in held],
        *[("start", (number, part)) for number in range(generators) for part in (0, 1)],
        *[("arrays", number) for number in range(arrays)],
        *[("cotangents", (order, n)) for order, specs in enumerate(orders) for n in range(len(specs))],
    ]


def fetch(recipe: Recipe, source: InputSource) -> Any:
    """Returns an input of a program."""
    kind, place = source
    if kind == "held":
        return recipe.held[place]
    if kind == "arrays":
        return recipe.arrays[place]
    if kind == "cotangents":
        return recipe.cotangents[place[0]][place[1]]
    key, count = recipe.starts[place[0]]
    return np.uint32(count) if place[1] else key


class StateOfCall(NamedTuple):
    """The state that a program was compiled for, so that its function can be traced again for it.

    Attributes:
        reader: finds the operands.
        operands: what is expected of them.
        autocast: the settings of autocast.
        entries: the way to each container in which a call puts something that replaces no Tensor, the key,
            and the entry from before, if there was one.
    """

    reader: Reader
    operands: ExpectedOperands
    autocast: Any
    entries: Sequence[tuple[Callable[..., Any], Any, dict[Any, Any]]]

    def trace(self, name: str, recipe: Recipe, orders: Sequence[Sequence[Any]]) -> tuple[Trace, list[Any]]:
        """Traces the function of a call with its backwards.

        Changes of Tensors by the call itself are undone for the time of the trace.

        Returns:
            The trace, and for each storage that it reads the place of its operand.

        Raises:
            TracingError: the function leads to something else than at the call.
        """
        with tracing, self._undo_entries(recipe):
            tensors = self.reader.read(recipe.function, recipe.leaves)
            if tensors is None:
                raise _changed(name, self.reader.explain(recipe.function, recipe.leaves))
            before, autocast = StateSnapshot(tensors, ()), modes.state.autocast
            try:
                modes.state.autocast = self.autocast
                self.operands.restore(tensors)
                if self.operands.match(tensors) is None:
                    raise _changed(name, self.operands.explain(tensors))
                candidates = Candidates(Walk(recipe.function, list(recipe.leaves)))
                trace = Trace(name, recipe.call, candidates, recipe.arrays, orders)
            finally:
                modes.state.autocast = autocast
                before.restore()
        numbers = {id(tensor): place for place, tensor in enumerate(tensors)}
        return trace, [numbers.get(id(candidates.operands[number].value)) for number in candidates.holders]

    @contextlib.contextmanager
    def _undo_entries(self, recipe: Recipe) -> Generator[None]:
        """Lets containers hold what they held before the call."""
        now: list[tuple[Any, Any, dict[Any, Any]]] = []
        try:
            for way, key, before in self.entries:
                try:
                    container = way(recipe.function, recipe.leaves)
                except (AttributeError, IndexError, KeyError):
                    continue  # the reader says what has changed
                held = read_entries(container) or {}
                now.append((container, key, {key: held[key]} if key in held else {}))
                if key in held or before:
                    restore_entry(container, key, before)
            yield
        finally:
            for container, key, held in now:
                if held or key in (read_entries(container) or {}):
                    restore_entry(container, key, held)


def _changed(name: str, reason: str) -> TracingError:
    return TracingError(
        f"{name}: a derivative of higher order traces the compiled function again, and finds it changed. Got "
        f"this change since the call: {reason}. Differentiate with create_graph=True before the change, or "
        "call the function again."
    )
