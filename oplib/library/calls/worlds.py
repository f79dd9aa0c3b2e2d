"""The world of a call, Tensors or arrays: how it is found, and which arguments it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.library.arguments.layout import Layout, Slot, count_arrays
from oplib.library.records.record import Record

_NUMBERS = (bool, int, float, complex, np.generic)


def tells_world(record: Record, layout: Layout) -> bool:
    """Tells whether an argument that is a tensor is given, and not only operands."""
    return any(
        count_arrays(entry) and entry is not Slot.key and argument.name not in record.operand
        for entry, argument in zip(layout.entries, record.schema.arguments, strict=True)
    )


def refuse_numbers(record: Record, layout: Layout, flat: Sequence[Any]) -> None:
    """Raises ArgumentError for a number in place of a tensor in a call with Tensors, as torch does."""
    if not any(isinstance(value, _NUMBERS) for value in flat):
        return
    values = layout.rebuild(flat)
    for place, argument in enumerate(record.schema.arguments):
        if count_arrays(layout.entries[place]) and argument.name not in record.operand:
            value = values[place]
            for member in value if isinstance(value, list) else [value]:
                if isinstance(member, _NUMBERS):
                    raise _explain_number(record, place, member)


def _explain_number(record: Record, place: int, number: Any) -> ArgumentError:
    return ArgumentTypeError(
        f"{record.name}() Expected a value of type 'Tensor' for argument "
        f"'{record.schema.arguments[place].name}' but instead found type '{type(number).__name__}'. "
        f"Position: {place}. Value: {describe(number)}. Declaration: {record.schema}. Pass "
        f"oplib.tensor({describe(number)})."
    )


def refuse_bare_lists(record: Record, layout: Layout, flat: Sequence[Any]) -> None:
    """Raises ArgumentError for numbers in a list of tensors if no argument is an array, as torch does."""
    for place, entry in enumerate(layout.entries):
        if isinstance(entry, tuple) and True in entry and all(isinstance(one, _NUMBERS) for one in flat):
            raise _explain_number(record, place, layout.rebuild(flat)[place][entry.index(True)])


def refuse_writing(record: Record, layout: Layout) -> None:
    """Raises ArgumentError for a call that would write into arrays."""
    for place in layout.written_places:
        if layout.entries[place] is not Slot.absent:
            raise ArgumentError(
                f"{record.name}: argument '{record.schema.arguments[place].name}' is written, but arrays "
                "cannot be. The call has arrays and no Tensor. Call .functional, which returns the new "
                "values, or pass Tensors."
            )
