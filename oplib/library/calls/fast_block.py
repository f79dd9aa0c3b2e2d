"""The fast path of one overload in one generated function, as data; :mod:`.fast_lines` writes its lines."""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from oplib.library.schema import Argument, FunctionSchema

from .dispatch import Dispatcher


class Input(NamedTuple):
    """One array of a compiled call.

    Attributes:
        name: the variable that holds the argument, or the item of a list.
        numbers: the classes of numbers that the argument may have. It is a tensor if there are none.
    """

    name: str
    numbers: tuple[type, ...] = ()

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

    Attributes:
        tests: the expressions that are true for these calls.
        key: the lines of the key of the specialization.
        lists: the lists of tensors, and the variables that hold their items.
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
        for absent, lengths in itertools.product(absences, list(self.dispatcher.lengths)):
            is_absent = {names[index]: flag for index, flag in zip(key.optional, absent, strict=True)}
            length_of = {names[index]: length for index, length in zip(key.lists, lengths, strict=True)}
            tests = [f"{name} is {'None' if flag else 'not None'}" for name, flag in is_absent.items()]
            for name, length in length_of.items():
                tests += [f"{name}.__class__ in __LISTS", f"__len({name}) == {length}"]
            lists = {
                name: [f"__{index}_of_{name}" for index in range(length)]
                for name, length in length_of.items()
            }
            inputs = self._list_inputs(is_absent, lists)
            if inputs:
                yield CallKind(tests, key.render(names, absent, lengths), lists, inputs)

    def _list_inputs(self, is_absent: Mapping[str, bool], lists: Mapping[str, list[str]]) -> list[Input]:
        inputs: list[Input] = []
        for name, argument in zip(self.names, self.dispatcher.schema.arguments, strict=True):
            if name in lists:
                inputs += map(Input, lists[name])
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
