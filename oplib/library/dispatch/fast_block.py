"""The fast path of one overload in one generated function, as data; :mod:`.fast_lines` writes its lines."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from oplib.library.schema import Argument, FunctionSchema

from .dispatcher import MAX_ITEMS, Dispatcher


class Input(NamedTuple):
    """One array of a compiled call, or those of a long list.

    Attributes:
        name: the variable that holds the argument, or the item of a list.
        numbers: the classes of numbers that the argument may have. It is a tensor if there are none.
        is_list: the variable holds a list of tensors, which the code reads in loops.
    """

    name: str
    numbers: tuple[type, ...] = ()
    is_list: bool = False

    def variable(self, hint: str) -> str:
        """Returns another variable that belongs to the input."""
        return f"__{self.name.removeprefix('__')}_{hint}"

    @property
    def array(self) -> str:
        """The variable that holds the array, or what the compiled call gets for a number."""
        return self.variable("operand" if self.numbers else "array")

    @property
    def storage(self) -> str:
        """The variable that holds the storage."""
        return "__NOBODY" if self.numbers else self.variable("storage")


class CallKind(NamedTuple):
    """The calls in which the same optional tensors are given and lists of tensors have the same lengths.

    Those of all lengths with more than ``MAX_ITEMS`` tensors in lists are one kind.

    Attributes:
        tests: the expressions that are true for these calls.
        key: the lines of the key of the specialization.
        lists: the lists of tensors, and the variables that hold their items; empty if the lists are long.
        inputs: the arrays of the compiled call, in its order.
    """

    tests: list[str]
    key: list[str]
    lists: dict[str, list[str]]
    inputs: list[Input]


class FastBlock:
    """The fast path of one overload in one generated function.

    Args:
        dispatcher: of the overload.
        names: the variables that hold the arguments, if they have other names than in the schema.
        writes: the result is written into the first argument, which is returned.
        in_inference: the function is for inference mode, where nothing is recorded and results have a class
            of their own.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        names: Sequence[str] | None = None,
        *,
        writes: bool = False,
        in_inference: bool = False,
    ) -> None:
        self.dispatcher = dispatcher
        self.names = name_arguments(dispatcher.schema) if names is None else names
        self.writes = writes
        self.in_inference = in_inference
        self.result_count = len(dispatcher.schema.returns)
        self.find = dispatcher.fast_keys.get

    @property
    def can_write(self) -> bool:
        """Whether the first argument is always a tensor, and one result comes of the call."""
        return self.result_count == 1 and str(self.dispatcher.schema.arguments[0].type) == "Tensor"

    @property
    def size(self) -> int:
        """A number that grows with the ways of calling for which there are lines."""
        return len(self.dispatcher.patterns) + len(self.dispatcher.lengths)

    def list_kinds(self) -> Iterator[CallKind]:
        """Returns the kinds of calls that it serves."""
        key, names = self.dispatcher.fast_key, self.names
        absences = itertools.product((False, True), repeat=len(key.optional))
        list_names = [names[index] for index in key.lists]
        several: list[tuple[int, ...] | None] = [*self.dispatcher.lengths, *([None] if list_names else [])]
        for absent, lengths in itertools.product(absences, several):
            is_absent = {names[index]: flag for index, flag in zip(key.optional, absent, strict=True)}
            tests = [f"{name} is {'None' if flag else 'not None'}" for name, flag in is_absent.items()]
            tests += [f"{name}.__class__ in __LISTS" for name in list_names]
            measured = [f"__len({name})" for name in list_names]
            if lengths is None:
                tests.append(f"{' + '.join(measured)} > {MAX_ITEMS}")
                items = {name: [Input(name, is_list=True)] for name in list_names}
                lists: dict[str, list[str]] = {}
            else:
                pairs = list(zip(measured, map(str, lengths), strict=True))
                tests += [f"{own} == {length}" for own, length in pairs]
                measured = [length for _, length in pairs]
                lists = {
                    name: [f"__{index}_of_{name}" for index in range(length)]
                    for name, length in zip(list_names, lengths, strict=True)
                }
                items = {name: list(map(Input, variables)) for name, variables in lists.items()}
            inputs = self._list_inputs(is_absent, items)
            if inputs:
                yield CallKind(tests, key.render(names, list(map(repr, absent)), measured), lists, inputs)

    def _list_inputs(self, is_absent: Mapping[str, bool], items: Mapping[str, list[Input]]) -> list[Input]:
        inputs: list[Input] = []
        for name, argument in zip(self.names, self.dispatcher.schema.arguments, strict=True):
            if name in items:
                inputs += items[name]
            elif argument.has_tensor and not is_absent.get(name):
                inputs.append(Input(name))
            elif argument.name in self.dispatcher.record.operand:
                inputs.append(Input(name, _list_numbers(argument)))
        return inputs


def name_arguments(schema: FunctionSchema) -> list[str]:
    """Returns the variables that hold the arguments of an overload."""
    names = [argument.name for argument in schema.arguments]
    return [name if _is_plain_name(name) else f"__{index}" for index, name in enumerate(names)]


def _is_plain_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def _list_numbers(argument: Argument) -> tuple[type, ...]:
    return {"float": (float,), "int": (int,)}.get(str(argument.type), (float, int))
