"""The key of a call in the fast path: it finds the specialization from unconverted arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.frozen import freeze
from oplib.generated_code import render_tuple
from oplib.library.arguments.trees import is_object_tree
from oplib.library.op_records.record import Record
from oplib.library.schema import Argument
from oplib.protocols import Values

LISTS = frozenset({list, tuple})
MAX_OPTIONAL = 2  # each optional tensor doubles the text


def is_eligible(record: Record) -> bool:
    """Whether the fast path can serve some calls of an op."""
    arguments = record.schema.arguments
    return (
        record.kind == "array"
        and record.compiled
        and "default" in record.kernels  # so no platform is without one; which it is, lowering decides
        and not record.schema.is_mutable
        and not record.draws
        and any(argument.is_tensor or _is_list(argument) for argument in arguments)
        and all(
            argument.is_tensor or argument.is_optional_tensor or _is_list(argument)
            for argument in arguments
            if argument.has_tensor
        )
        and sum(argument.is_optional_tensor for argument in arguments) <= MAX_OPTIONAL
        and len(record.schema.returns) > 0
        and all(output.is_tensor for output in record.schema.returns)
    )


def _is_list(argument: Argument) -> bool:
    return str(argument.type) == "Tensor[]"


def freeze_softly(value: Any) -> object:
    """As ``freeze``, but a value that cannot be hashed or contains itself gives a key that no other has."""
    try:
        return freeze(value)
    except (TypeError, RecursionError):
        return object()


def freeze_tree(value: Any) -> object:
    """As ``freeze_softly``, for an argument that may be an object whose leaves change."""
    return object() if is_object_tree(value) else freeze_softly(value)


def freeze_ints(value: Any) -> object:
    """As ``freeze_softly``, for a value that is nearly always a short list of numbers."""
    return (*value, *map(type, value)) if value.__class__ in (tuple, list) else freeze_softly(value)


KEY_OBJECTS: dict[str, Any] = {
    f"__{used.__name__}": used for used in (int, len, str, freeze_ints, freeze_softly, freeze_tree)
}
"""What the text of keys refers to; an argument may have the name of a builtin."""

# The items of a key, where {0} stands for the value. True equals 1, so the class belongs to the key. The text
# of a zero tells 0.0, -0.0 and None apart. Most lists of ints are one number, which no other value gives.
_PLAIN = "{0}.__class__, {0}"
_FLOAT = "{0}.__class__, {0} or __str({0})"
_INTS = "{0} if {0} is None or {0}.__class__ is __int else __freeze_ints({0})"
_OTHER = "None if {0} is None else __freeze_softly({0})"
_TREE = "None if {0} is None else __freeze_tree({0})"


def _choose_items(type_name: str) -> str:
    if type_name in ("Any", "Tree"):
        return _TREE
    if type_name in ("int", "bool", "str"):
        return _PLAIN
    if type_name in ("float", "Scalar"):
        return _FLOAT
    return _INTS if type_name.startswith("int[") else _OTHER


class FastKey:
    """The arguments of an op that belong to the key.

    Attributes:
        static: for each static argument its index, and the text of its items of the key.
        optional: the indices of optional tensors: whether one is given is a part of the key.
        lists: the indices of lists of tensors: their lengths are parts of the key.
        make: returns the key of a call from all its arguments.
    """

    def __init__(self, record: Record) -> None:
        arguments = list(enumerate(record.schema.arguments))
        self.static = [
            (index, _choose_items(str(argument.type).rstrip("?")))
            for index, argument in arguments
            if not argument.has_tensor and argument.name not in record.operand
        ]
        self.optional = [index for index, argument in arguments if argument.is_optional_tensor]
        self.lists = [index for index, argument in arguments if _is_list(argument)]
        names = [f"values[{index}]" for index, _ in arguments]
        absent = [f"{names[index]} is None" for index in self.optional]
        key = self.render(names, absent, [f"__len({names[index]})" for index in self.lists])
        self.make: Callable[[Sequence[Any]], Values] = eval(
            f"lambda values: {render_tuple(key)}", {**KEY_OBJECTS}
        )

    def render(self, names: Sequence[str], absent: Sequence[str], lengths: Sequence[str]) -> list[str]:
        """Returns the lines of a key in generated code, without commas at their ends.

        Args:
            names: the variables that hold the arguments.
            absent: for each optional tensor, whether it is None, as an expression.
            lengths: of the lists of tensors, likewise.
        """
        static = [items.format(names[index]) for index, items in self.static]
        return [*static, *absent, *lengths]
