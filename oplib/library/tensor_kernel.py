"""Eager kernels: plain Python on Tensors. What they return, and how they run in the array world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from oplib.errors import ResultError, describe
from oplib.tensor import Tensor, box

from .layout import Layout
from .plain_conversions import is_array
from .record import Function, Record
from .results import check_results, take_returned_arguments
from .structure import Results, make_structure
from .tracing import running


def run_tensor_kernel(record: Record, kernel: Function, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs an eager kernel on boxes around arrays or tracers; what it wrote into them comes first."""
    values = layout.rebuild([box(jnp.asarray(value)) for value in arrays])
    args, kwargs = layout.split(values)
    with running(record.name, "kernel", eager=True):
        returned = check_tensor_results(record, kernel(*args, **kwargs))
    rest = take_returned_arguments(record.name, layout.schema, returned, values)
    written = [values[place] for place in layout.written_places]
    structure, flat = make_structure([*written, *rest], len(written), lambda value: isinstance(value, Tensor))
    return structure, [tensor._storage.array for tensor in flat]


def check_tensor_results(record: Record, result: Any) -> list[Any]:
    """Checks what an eager kernel returned; it gets Tensors, and so it gives Tensors.

    Raises:
        ResultError: it does not fit the schema, or has a bare array where a Tensor is due.
    """
    results = check_results(record.schema)(result)
    for value in results:
        for member in value if isinstance(value, (list, tuple)) else (value,):
            if is_array(member) and not isinstance(member, Tensor):
                raise ResultError(
                    f"{record.name}: the kernel works on Tensors and returned an array. Got "
                    f"{describe(member)}, of type {type(member).__name__}. Return "
                    "oplib.Tensor.from_array(value), or annotate the kernel jax.Array."
                )
    return results
