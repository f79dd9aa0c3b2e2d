"""Array kernels: JAX functions of arrays, traced once per signature, or run as plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import ResultError, describe
from oplib.library.arguments.layout import EntryKind, Layout
from oplib.library.arguments.plain_conversions import convert_to_array
from oplib.library.arguments.results import (
    check_results,
    leave_out_returned_arguments,
    put_back_returned_arguments,
)
from oplib.library.arguments.structure import Results, make_structure, pack
from oplib.library.op_records.record import Function, Record
from oplib.tensor import Tensor

from .tracing import run_part


def trace_array_kernel(record: Record, kernel: Function, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs an array kernel under a trace, in which it may not read values."""
    return _run(record, kernel, layout, arrays, eager=False)


def run_array_kernel(record: Record, kernel: Function, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs an array kernel as plain Python, in which it may read values."""
    return _run(record, kernel, layout, list(map(jnp.asarray, arrays)), eager=True)


def _run(record: Record, kernel: Function, layout: Layout, arrays: Sequence[Any], *, eager: bool) -> Results:
    args, kwargs = layout.split(layout.rebuild(arrays))
    return run_part(
        lambda: take_apart(record, layout, kernel(*args, **kwargs)),
        record.name,
        "kernel",
        eager=eager or record.is_untraced,
        layout=None if eager else layout,
    )


def make_strong(value: Any) -> Any:
    """Removes weak typing; otherwise the promotion of a Python number would affect the callers of the op."""
    return jax.lax.convert_element_type(value, value.dtype) if jax.typeof(value).weak_type else value


def _is_weak(value: Any) -> bool:
    known = getattr(value, "weak_type", None)  # of arrays; faster than their type
    return jax.typeof(value).weak_type if known is None else known


def type_results(record: Record, layout: Layout, inputs: Sequence[Any], values: Sequence[Any]) -> Any:
    """Gives results the weak types of their trace if an array of the call has one, else strong types.

    An array of a Tensor has none, and a number that is an operand does not count. So Tensors stay strong.
    """
    is_weak = any(
        _is_weak(value) and layout.find_argument(index) not in record.operand
        for index, value in enumerate(inputs)
    )
    return tuple(values) if is_weak else tuple(map(make_strong, values))


def take_apart(record: Record, layout: Layout, result: Any, part: str = "the kernel") -> Results:
    """Splits a kernel's results: new values of written arguments first, then the declared returns."""
    indices = layout.written_indices
    if indices:
        values = split_written(record, layout, indices, result)
    else:
        values = check_results(layout.schema, part)(result)
    return make_structure(values, len(indices), read_result, subject=f"{record.name}: {part}")


def split_written(record: Record, layout: Layout, indices: Sequence[int], result: Any) -> list[Any]:
    """Checks the new values of written arguments, which come first, and the results; one entry per value.

    Raises:
        ResultError: the number of values is wrong, or a value does not fit its declaration.
    """
    # A return that is a written argument (Tag.inplace, Tag.out) is no separate value.
    slots = len(indices) + layout.schema.returned_arguments.count(None)
    returned = (result,) if slots == 1 else result
    if not isinstance(returned, (tuple, list)) or len(returned) != slots:
        raise ResultError(
            f"{record.name}: the kernel returned {describe(result)}. A kernel on arrays returns the new "
            f"value of each written argument, then its declared results: {slots} in all. Return a tuple of "
            f"{slots}."
        )
    written = [
        _check_written(record, layout, index, value) for index, value in zip(indices, returned, strict=False)
    ]
    new = dict(zip(indices, written, strict=True))
    full = put_back_returned_arguments(layout.schema, returned[len(indices) :], new)
    checked = check_results(layout.schema)(pack(full))
    return [*written, *leave_out_returned_arguments(layout.schema, checked)]


def _check_written(record: Record, layout: Layout, index: int, value: Any) -> Any:
    """Checks the new value of one argument: an array for an array, a list for a list, None for None."""
    entry = layout.entries[index]
    if isinstance(entry, tuple) and isinstance(value, (tuple, list)):
        if len(value) == len(entry) and all(map(_fits, entry, value)):
            return list(value)
    elif not isinstance(entry, tuple) and _fits(entry is EntryKind.array, value):
        return value
    expected = "an array" if entry is EntryKind.array else "None"
    if isinstance(entry, tuple):
        expected = f"a list of {len(entry)}"
    raise ResultError(
        f"{record.name}: the kernel's new value of argument '{layout.schema.arguments[index].name}' does not "
        f"fit. Got {describe(value)}, expected {expected}. For each written argument return a like value: an "
        "array, a list of as many, or None."
    )


def _fits(present: bool, value: Any) -> bool:
    return isinstance(value, (jax.Array, Tensor, np.ndarray, np.generic)) if present else value is None


def read_result(value: Any) -> Any:
    """Returns a result as an array, also that of a Tensor or of numpy; None if it is no array."""
    if isinstance(value, Tensor):
        return value.array
    if isinstance(value, jax.Ref):
        raise ResultError(
            f"a kernel returned a Ref, which cannot leave it. Got {jax.typeof(value)}. Return "
            "jax.freeze(ref), or ref[...]."
        )
    if hasattr(value, "__jax_array__") and not isinstance(value, jax.Array):
        value = convert_to_array(value)
    if isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__jax_array__"):
        return jnp.asarray(value)  # a tracer too, which becomes one of the current trace
    return value if isinstance(value, jax.Array) else None
