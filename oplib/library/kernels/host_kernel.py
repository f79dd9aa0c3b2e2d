"""Host kernels: plain Python on numpy arrays, run at once or as a callback of compiled code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from oplib.autograd.array_functions.masks import map_given
from oplib.errors import DtypeError, MissingRuleError, ResultError, describe
from oplib.library.arguments.keys import to_key_data
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.results import check_results, take_returned_arguments
from oplib.library.arguments.structure import Results, make_structure
from oplib.library.op_records.record import Function, Record
from oplib.tensor.dtypes.rules import check_range
from oplib.tensor.storage.ingestion import to_array

from .fake_kernel import require_fake, run_fake_kernel
from .host_call import call_host
from .tracing import run_part


def run_host_kernel(record: Record, kernel: Function, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs a host kernel on concrete arrays without a callback; the results are copied."""
    if record.is_ordered:
        _wait_for_effects()
    taken = [_take_in(record, layout, index, value) for index, value in enumerate(arrays)]
    structure, flat = _run(record, kernel, layout, taken)
    return structure, [_copy_in(record, np.asarray(value)) for value in flat]


def _take_in(record: Record, layout: Layout, index: int, value: Any) -> Any:
    """Gives a number or a numpy array the dtype that it has under ``jit``.

    Raises:
        DtypeError: an integer does not fit this dtype.
    """
    if isinstance(value, jax.Array):
        return value
    array = np.asarray(value)
    is_wide = array.dtype.kind == "O"  # an integer of Python beyond 64 bits
    dtype = jax.dtypes.canonicalize_dtype(np.int64 if is_wide else array.dtype)
    try:
        if array.dtype.kind in "iuO":
            check_range(array, dtype)
    except DtypeError as error:
        raise DtypeError(f"{record.name}: argument '{layout.find_argument(index)}': {error}") from None
    return array.astype(dtype, copy=False)


def _wait_for_effects() -> None:
    """Waits for the effects of compiled programs that were called before.

    The error of such a program is raised where its results are read, or by ``jax.effects_barrier()``.
    """
    with contextlib.suppress(jax.errors.JaxRuntimeError):
        jax.effects_barrier()


def call_back_host_kernel(record: Record, kernel: Function, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Calls a host kernel as a callback in a trace.

    The fake kernel gives the shapes; without one it raises MissingRuleError.
    """
    keeps_shapes = None not in layout.schema.returned_arguments  # it only returns written arguments
    if record.fake is None and not keeps_shapes:
        raise MissingRuleError(
            f"{record.name}: no fake impl registered, and a host kernel under a trace needs one. The trace "
            "must know the shapes of the results before the kernel runs. Register one with "
            f"@oplib.library.register_fake('{record.name}')."
        )
    structure, shapes = jax.eval_shape(lambda *values: run_fake_kernel(record, layout, values), *arrays)

    return structure, call_host(
        bind_host_kernel(record, kernel, layout, (structure, shapes)),
        shapes,
        list(map(to_key_data, arrays)),
        op=record.name,
        is_ordered=record.is_ordered,
    )


def bind_host_kernel(
    record: Record, kernel: Function, layout: Layout, due: Results
) -> Callable[..., list[np.ndarray]]:
    """Returns a host kernel as a function of flat numpy arrays, whose results have a structure and shapes.

    The function raises ResultError if the kernel returns others.
    """
    shapes = due[1]

    def call(*values: Any) -> list[np.ndarray]:
        structure, flat = _run(record, kernel, layout, values)
        results = list(map(np.asarray, flat))
        fitting = [_narrow(value, shape) for value, shape in zip(results, shapes, strict=False)]
        require_fake(record, (structure, [*fitting, *results[len(fitting) :]]), due)
        return fitting

    return call


def _narrow(value: np.ndarray, shape: jax.ShapeDtypeStruct) -> np.ndarray:
    """Converts numpy's 64-bit integers to the dtype of the fake kernel, if their values fit."""
    if value.dtype == shape.dtype or value.dtype.kind not in "iu" or shape.dtype.kind not in "iu":
        return value
    narrow = value.astype(shape.dtype)
    return narrow if np.array_equal(narrow, value) else value


def _run(record: Record, kernel: Function, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs the kernel on read-only numpy arrays; a written argument is a copy that the kernel may write."""
    values = layout.rebuild(list(map(_view, arrays)))
    indices = layout.written_indices
    for index in indices:
        values[index] = _copy_out(values[index])
    args, kwargs = layout.split(values)
    returned = run_part(
        lambda: check_results(layout.schema)(kernel(*args, **kwargs)), record.name, "kernel", eager=True
    )
    rest = take_returned_arguments(record.name, layout.schema, returned, values)
    results = [*(values[index] for index in indices), *rest]
    return make_structure(results, len(indices), _read, subject=f"{record.name}: the kernel")


def _read(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, (np.ndarray, np.generic, jax.Array)) else None


def _view(value: Any) -> np.ndarray:
    view = np.asarray(to_key_data(value)).view()
    view.flags.writeable = False
    return view


def _copy_out(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map_given(np.array, value))
    return None if value is None else np.array(value)


def _copy_in(record: Record, value: np.ndarray) -> Any:
    """Copies a result into an array, because the kernel may reuse its memory."""
    try:
        return to_array(value, None, None)
    except DtypeError as error:
        raise ResultError(
            f"{record.name}: the host kernel returned {describe(value)}, which no array here can hold. "
            f"{error} Or return another dtype, such as value.astype(numpy.float32)."
        ) from None
