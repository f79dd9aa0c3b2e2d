"""Segments: steps of a program that run as one compiled function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from oplib.autograd.array_functions.array_function import make_gather
from oplib.autograd.nodes.gradient_representation import ARRAYS

from .steps import AccumulateStep, CallStep, HostStep, RetainStep, Step, Value, arguments_of, results_of

MOST_CALLS = 200
"""The calls of formulas in one segment. XLA's compile time grows faster than a program."""


class SegmentFunction:
    """The pure function of a segment, which a compiler gets.

    Attributes:
        jaxpr: the function as a ``ClosedJaxpr``.
    """

    def __init__(self, name: str, jaxpr: ClosedJaxpr) -> None:
        self.__name__ = self.__qualname__ = name
        self.jaxpr = jaxpr

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Computes the results of the segment."""
        return tuple(jaxpr_as_fun(self.jaxpr)(*arrays))

    def __str__(self) -> str:
        return f"{self.__name__} = {self.jaxpr}"


class Segment:
    """One compiled function, with the values that it takes and gives, and what is stored afterwards.

    Attributes:
        first_step: the number of its first step in the program.
        places: the nodes whose formulas it calls.
        take: picks the values that the function gets.
        gives: the numbers of the values that it returns.
        forwards: pairs of numbers: a value that is another one.
        accumulations: the accumulations that follow.
        additions: those to an existing ``grad``: the place, and the numbers of the values before and after.
        firsts: the others: the place, and the number of the gradient.
        releases: the nodes whose saved values are freed afterwards.
        retentions: the retained gradients that are stored afterwards.
        compiled: the function.
        drops: the numbers of values that no later step reads.
    """

    __slots__ = (
        "accumulations", "additions", "compiled", "drops", "first_step", "firsts", "forwards", "gives",
        "places", "releases", "retentions", "take",
    )  # fmt: skip

    def __init__(self, steps: Sequence[Any], first_step: int, kept: Collection[int]) -> None:
        """Reads the steps.

        Args:
            steps: the steps.
            first_step: the number of the first of them.
            kept: the places of nodes that need their saved values after the segment.
        """
        self.first_step = first_step
        self.places = [step.place for step in steps if isinstance(step, CallStep)]
        self.releases = [place for place in self.places if place not in kept]
        self.accumulations = [step for step in steps if isinstance(step, AccumulateStep)]
        self.additions = [
            (step.place, step.held.number, step.total.number)
            for step in self.accumulations
            if step.held is not None
        ]
        self.firsts = [(step.place, step.gradient.number) for step in self.accumulations if step.held is None]
        self.retentions = [step for step in steps if isinstance(step, RetainStep)]
        self.take: Callable[[Sequence[Any]], Sequence[Any]] = tuple
        self.gives: list[int] = []
        self.forwards: list[tuple[int, int]] = []
        self.drops: list[int] = []
        self.compiled: Callable[..., Any] | None = None


class SegmentCompiler:
    """Compiles segments. Segments of equal structure share one compiled function.

    Attributes:
        functions: the functions that were compiled.
    """

    def __init__(
        self, compile_one: Callable[[SegmentFunction, Sequence[Any]], Any], take_number: Callable[[], int]
    ) -> None:
        """Takes the compiler.

        Args:
            compile_one: compiles a function for the given shapes.
            take_number: gives the number of the next function, for its name.
        """
        self._take_number = take_number
        self._compile_one = compile_one
        self._known: dict[Any, tuple[Any, Sequence[int | None]]] = {}
        self.functions: list[SegmentFunction] = []

    def compile(self, segment: Segment, steps: Sequence[Any], is_read_later: Callable[[int], bool]) -> None:
        """Sets the function of a segment, and the values that it takes and gives.

        Args:
            segment: the segment.
            steps: its steps.
            is_read_later: whether later steps read a value, by its number.
        """
        body = _Body(steps, is_read_later)
        key = body.key()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._trace(body)
        segment.compiled, forwarded = found
        segment.take = make_gather(tuple([value.number for value in body.inputs]))
        for value, place in zip(body.outputs, forwarded, strict=True):
            if place is None:
                segment.gives.append(value.number)
            else:
                segment.forwards.append((value.number, body.inputs[place].number))

    def _trace(self, body: _Body) -> tuple[Any, Sequence[int | None]]:
        avals = [value.aval for value in body.inputs]
        closed = jax.jit(body.run).trace(*avals).jaxpr
        if None not in body.forwarded:
            return None, body.forwarded
        function = SegmentFunction(f"CompiledAutograd{self._take_number()}", closed)
        self.functions.append(function)
        return self._compile_one(function, avals), body.forwarded


def divide(steps: Sequence[Step]) -> list[tuple[int, list[Step]]]:
    """Divides steps into host steps and groups of others that are short enough for one segment.

    Returns:
        Groups, each with the number of its first step. A host step is alone in its group.
    """
    groups: list[tuple[int, list[Step]]] = []
    calls, is_open = 0, False
    for number, step in enumerate(steps):
        is_host = isinstance(step, HostStep)
        if isinstance(step, CallStep):
            calls += 1
        if is_host or not is_open or calls > MOST_CALLS:
            groups.append((number, []))
            calls = int(isinstance(step, CallStep))
        groups[-1][1].append(step)
        is_open = not is_host
    return groups


class _Body:
    """The steps of a segment as a function of arrays, with values numbered from 0.

    Attributes:
        inputs: the values that come from outside.
        outputs: the values that are stored or read later.
        forwarded: for each output the index of the input that it is, or None, once the function is traced.
            XLA would copy such an output.
    """

    def __init__(self, steps: Sequence[Any], is_read_later: Callable[[int], bool]) -> None:
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.forwarded: list[int | None] = []
        self._operations: list[tuple[Any, tuple[int, ...], tuple[int | None, ...], Any]] = []
        self._numbers: dict[int, int] = {}
        made: set[int] = set()
        outputs: dict[int, Value] = {}
        for step in steps:
            results = results_of(step)
            for value in arguments_of(step):
                if value.number not in made and value.number not in self._numbers:
                    self._enter(value)
                    self.inputs.append(value)
            made.update(value.number for value in results if value is not None)
        for step in steps:
            self._add(step)
            stored = [step.total] if isinstance(step, AccumulateStep) else []
            stored += [step.gradient] if isinstance(step, RetainStep) else []
            stored += [
                value for value in results_of(step) if value is not None and is_read_later(value.number)
            ]
            outputs |= {value.number: value for value in stored}
        self.outputs = list(outputs.values())

    def _enter(self, value: Value) -> int:
        return self._numbers.setdefault(value.number, len(self._numbers))

    def _add(self, step: Any) -> None:
        if isinstance(step, RetainStep) or (isinstance(step, AccumulateStep) and step.held is None):
            return
        inputs = tuple([self._numbers[value.number] for value in arguments_of(step)])
        outputs = tuple([None if value is None else self._enter(value) for value in results_of(step)])
        key = step.key if isinstance(step, CallStep) else None
        self._operations.append((key, inputs, outputs, step if isinstance(step, CallStep) else None))

    def key(self) -> Any:
        """Returns the structure: equal structures are equal functions."""
        return (
            tuple([(value.aval.shape, value.aval.dtype, value.aval.weak_type) for value in self.inputs]),
            tuple([operation[:3] for operation in self._operations]),
            tuple([self._numbers[value.number] for value in self.outputs]),
        )

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """Computes the outputs from the inputs, without those that are inputs."""
        values: dict[int, Any] = dict(enumerate(arrays))
        for _, inputs, outputs, call in self._operations:
            given = [values[number] for number in inputs]
            if call is None:
                results: Sequence[Any] = (ARRAYS.add(*given),)
            else:
                with jax.named_scope(call.label):
                    results = call.function.run(*given)
            pairs = zip(outputs, results, strict=True)
            values.update({number: result for number, result in pairs if number is not None})
        found = [values[self._numbers[value.number]] for value in self.outputs]
        places = {id(array): place for place, array in enumerate(arrays)}
        self.forwarded = [places.get(id(array)) for array in found]
        pairs = zip(found, self.forwarded, strict=True)
        return tuple([array for array, place in pairs if place is None])
