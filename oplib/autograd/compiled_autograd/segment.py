"""Segments: steps of a program that run as one compiled function of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from oplib.autograd.array_functions.array_function import make_gather
from oplib.autograd.array_functions.compilation import bind_jaxpr
from oplib.autograd.nodes.gradient_representation import ARRAYS

from .steps import CallStep, HostStep, Step, StoreStep, Value

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
        return tuple(bind_jaxpr(self.jaxpr)(*arrays))

    def __str__(self) -> str:
        return f"{self.__name__} = {self.jaxpr}"


class Segment:
    """One compiled function, with the values that it takes and gives, and what is stored afterwards.

    Attributes:
        indices: the nodes whose formulas it calls.
        call: the number of the first call.
        stores: the gradients that are stored when the function has run.
        sums: those of leaves that have a ``grad``: the index, and the number of the value before.
        take: picks the values that the function gets.
        gives: the numbers of the values that it returns.
        forwards: pairs of numbers: a value that is another one.
        compiled: the function; None if each result is an argument.
        drops: the numbers of values that no later step reads.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        body: _Body,
        compiled: Callable[..., Any] | None,
        forwarded: Sequence[int | None],
    ) -> None:
        calls = [step for step in steps if isinstance(step, CallStep)]
        self.indices = [step.index for step in calls]
        self.call = calls[0].call if calls else 0
        self.stores = [step for step in steps if isinstance(step, StoreStep)]
        self.sums = [(step.index, step.held.number) for step in self.stores if step.held is not None]
        numbers = [value.number for value in body.inputs]
        self.take: Callable[[Sequence[Any]], Sequence[Any]] = make_gather(tuple(numbers))
        results = [(value.number, index) for value, index in zip(body.outputs, forwarded, strict=True)]
        self.gives = [number for number, index in results if index is None]
        self.forwards = [(number, numbers[index]) for number, index in results if index is not None]
        self.compiled = compiled
        self.drops: Sequence[int] = ()


Shared = dict[Any, tuple[Callable[..., Any] | None, Sequence[int | None]]]
"""Compiled functions by their structure, with the inputs that are forwarded."""


def make_segment(
    steps: Sequence[Any],
    is_read_later: Callable[[int], bool],
    shared: Shared,
    compile_function: Callable[[ClosedJaxpr], Callable[..., Any]],
) -> Segment:
    """Returns some steps as a segment. Segments of equal structure share one compiled function."""
    body = _Body(steps, is_read_later)
    key = body.key()
    if key not in shared:
        closed = jax.jit(body.run).trace(*[value.aval for value in body.inputs]).jaxpr
        compiled = compile_function(closed) if None in body.forwarded else None
        shared[key] = compiled, body.forwarded
    return Segment(steps, body, *shared[key])


def divide(steps: Sequence[Step]) -> list[list[Step]]:
    """Divides steps into groups that are short enough for one segment. A host step is alone in its group."""
    groups: list[list[Step]] = []
    calls, is_open = 0, False
    for step in steps:
        is_host, is_call = isinstance(step, HostStep), isinstance(step, CallStep)
        calls += is_call
        if is_host or not is_open or calls > MOST_CALLS:
            groups.append([])
            calls = int(is_call)
        groups[-1].append(step)
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
        self.forwarded: list[int | None] = []
        self._operations: list[tuple[Any, tuple[int, ...], tuple[int | None, ...], Any]] = []
        self._numbers: dict[int, int] = {}
        made = {value.number for step in steps for value in step.results if value is not None}
        for value in [value for step in steps for value in step.arguments]:
            if value.number not in made and value.number not in self._numbers:
                self._enter(value)
                self.inputs.append(value)
        outputs: dict[int, Value] = {}
        for step in steps:
            if isinstance(step, StoreStep):
                outputs[step.gradient.number] = step.gradient
                continue
            arguments = tuple([self._numbers[value.number] for value in step.arguments])
            results = tuple([None if value is None else self._enter(value) for value in step.results])
            call = step if isinstance(step, CallStep) else None
            self._operations.append((call and call.key, arguments, results, call))
            kept = [value for value in step.results if value is not None and is_read_later(value.number)]
            outputs |= {value.number: value for value in kept}
        self.outputs = list(outputs.values())

    def _enter(self, value: Value) -> int:
        return self._numbers.setdefault(value.number, len(self._numbers))

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
            arguments = [values[number] for number in inputs]
            if call is None:
                results: Sequence[Any] = (ARRAYS.add(*arguments),)
            else:
                with jax.named_scope(call.label):
                    results = call.function.run(*arguments)
            pairs = zip(outputs, results, strict=True)
            values.update({number: result for number, result in pairs if number is not None})
        leaving = [values[self._numbers[value.number]] for value in self.outputs]
        indices = {id(array): index for index, array in enumerate(arrays)}
        self.forwarded = [indices.get(id(array)) for array in leaving]
        pairs = zip(leaving, self.forwarded, strict=True)
        return tuple([array for array, index in pairs if index is None])
