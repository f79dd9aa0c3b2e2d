"""The kind of the inputs of a call, Tensors or arrays: how it is found, and which inputs are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.errors import ArgumentError, ArgumentTypeError, describe
from oplib.library.arguments.layout import EntryKind, Layout, count_arrays
from oplib.library.kernels.array_kernel import make_strong
from oplib.library.op_records.record import Record
from oplib.tensor import Tensor
from oplib.tensor.storage.ingestion import to_array

_NUMBERS = (bool, int, float, complex, np.generic)


def has_tensor_input(record: Record, layout: Layout) -> bool:
    """Tells whether an argument that is a tensor is given, and not only operands."""
    return any(
        count_arrays(entry) and entry is not EntryKind.key and argument.name not in record.operand
        for entry, argument in zip(layout.entries, record.schema.arguments, strict=True)
    )


def take_numbers(record: Record, layout: Layout, flat: list[Any]) -> list[Any]:
    """Converts the numbers for tensors in a call with Tensors to arrays, and weak types to strong ones.

    Numbers and arrays are constants there.

    Raises ArgumentError if the kernel works on Tensors, or the op is built in: these do as torch.
    """
    if not any(_is_number(value) or _is_weak(value) for value in flat):
        return flat
    taken = list(flat)
    end = 0
    for index, (argument, entry) in enumerate(zip(record.schema.arguments, layout.entries, strict=True)):
        begin, end = end, end + count_arrays(entry)
        if argument.name in record.operand:
            continue
        for position in range(begin, end):
            if _is_number(flat[position]):
                if record.takes_tensors or record.is_built_in:
                    raise _explain_number(record, index, flat[position])
                taken[position] = _to_constant(flat[position])
            elif _is_weak(flat[position]) and not record.is_built_in:  # whose results are never weak
                taken[position] = make_strong(flat[position])
    return taken


def _is_number(value: Any) -> bool:
    return issubclass(type(value), _NUMBERS)  # `isinstance` runs Python code for a Tensor inside a trace


def _is_weak(value: Any) -> bool:
    return not issubclass(type(value), Tensor) and getattr(value, "weak_type", False)


def _to_constant(number: Any) -> Any:
    """Returns a number as an array; one of Python has the default dtype of its kind, one of numpy its own."""
    data = number
    if isinstance(number, np.generic):  # numpy's float64 and complex128 are numbers of Python too
        data = number.item() if isinstance(number, (float, complex)) else np.asarray(number)
    return to_array(data, None, None)


def _explain_number(record: Record, index: int, number: Any) -> ArgumentError:
    return ArgumentTypeError(
        f"{record.name}() Expected a value of type 'Tensor' for argument "
        f"'{record.schema.arguments[index].name}' but instead found type '{type(number).__name__}'. "
        f"Position: {index}. Value: {describe(number)}. Declaration: {record.schema}. Pass "
        f"oplib.tensor({describe(number)})."
    )


def refuse_bare_lists(record: Record, layout: Layout, flat: Sequence[Any]) -> None:
    """Raises ArgumentError for numbers in a list of tensors if no argument is an array, as torch does."""
    for index, entry in enumerate(layout.entries):
        if isinstance(entry, tuple) and True in entry and all(isinstance(value, _NUMBERS) for value in flat):
            raise _explain_number(record, index, layout.rebuild(flat)[index][entry.index(True)])


def refuse_writing(record: Record, layout: Layout) -> None:
    """Raises ArgumentError for a call that would write into arrays."""
    for index in layout.written_indices:
        if layout.entries[index] is not EntryKind.absent:
            raise ArgumentError(
                f"{record.name}: argument '{record.schema.arguments[index].name}' is written, but arrays "
                "cannot be. The call has arrays and no Tensor. Call .functional, which returns the new "
                "values, or pass Tensors."
            )
