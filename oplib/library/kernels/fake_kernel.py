"""Fake kernels: the shapes and dtypes of results without the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import shape_of
from oplib.autograd.array_functions.array_types import zeros_of
from oplib.errors import ResultError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.recording import unbox
from oplib.library.arguments.results import check_results, leave_out_returned_arguments
from oplib.library.arguments.structure import (
    Results,
    Structure,
    make_structure,
    require_same_structure,
)
from oplib.library.op_records.record import Record
from oplib.library.op_records.sites import find_definition
from oplib.protocols import Values
from oplib.tensor import box
from oplib.tensor.storage.failed_reads import forget_read
from oplib.tracebacks import warn_user

from .tracing import run_part

_SHAPED = (jax.ShapeDtypeStruct, np.ndarray, np.generic)


def run_fake_kernel(record: Record, layout: Layout, arrays: Sequence[Any]) -> tuple[Structure, Values]:
    """Runs the fake kernel under an abstract trace; written arguments keep their shapes."""
    structure, flat = _run(record, layout, arrays)
    return structure, tuple(map(_materialize, flat))


def declare_varying(record: Record, layout: Layout, arrays: Sequence[Any]) -> list[frozenset[Any] | None]:
    """Returns for each result the varying mesh axes that the fake kernel declares, None if it declares none.

    Only a ``jax.ShapeDtypeStruct`` with ``manual_axis_type`` declares them. An array does not: it is often an
    argument, or zeros, that merely have the right shape.
    """
    declared: list[frozenset[Any] | None] = []

    def note(*values: Any) -> None:
        for value in _run(record, layout, values)[1]:
            kind = value.manual_axis_type if isinstance(value, jax.ShapeDtypeStruct) else None
            declared.append(None if kind is None else kind.varying)

    jax.eval_shape(note, *arrays)
    return declared


def _run(record: Record, layout: Layout, arrays: Sequence[Any]) -> tuple[Structure, Sequence[Any]]:
    """Runs the fake kernel; returns the structure and what it gave for each result."""
    returned: Sequence[Any] = ()
    if record.fake is not None:
        boxed = record.kind == "tensor"
        args, kwargs = layout.split(layout.rebuild(list(map(box, arrays)) if boxed else arrays))
        fake = record.fake
        returned = run_part(
            lambda: check_results(layout.schema, "the fake kernel")(fake(*args, **kwargs)),
            record.name,
            "fake kernel",
            eager=boxed,
        )
        returned = leave_out_returned_arguments(layout.schema, returned)
    values = layout.rebuild(arrays)
    indices = layout.written_indices
    results = [*(values[index] for index in indices), *returned]
    return make_structure(results, len(indices), _read, subject=f"{record.name}: the fake kernel")


def _read(value: Any) -> Any:
    array = unbox(value)
    return array if isinstance(array, (jax.Array, *_SHAPED)) else None


def compare_with_fake(
    record: Record, layout: Layout, arrays: Sequence[Any], results: Results, *, warns: bool = True
) -> None:
    """Raises if a kernel returned another structure, shapes or dtypes than the fake kernel.

    Args:
        record: the record of the op.
        layout: the layout of the call.
        arrays: the arrays of the call.
        results: the results of the kernel.
        warns: whether another error of the fake kernel gives a warning.

    Raises:
        ResultError: the kernel did so.

    Warns:
        UserWarning: the fake kernel raised another error.
    """
    try:
        due = jax.eval_shape(
            lambda *values: run_fake_kernel(record, layout, values), *map(shape_of, map(_to_array, arrays))
        )
    except ResultError:
        raise
    except Exception as error:  # noqa: BLE001  a call that needs no fake kernel goes on
        forget_read(error)
        if warns:
            warn_user(
                f"{record.name}: the fake kernel at {find_definition(record.fake)} raised an error. Got "
                f"{type(error).__name__}: {str(error).rstrip('.')}. The kernel returned "
                f"{describe(list(results[1]))}, so this call goes on. What needs the shapes first fails. "
                "Correct the fake kernel: see register_fake."
            )
        return
    require_fake(record, results, due)


def require_fake(record: Record, results: Results, due: Results) -> None:
    """Raises ResultError if a kernel and its fake kernel differ in structure, shapes or dtypes."""
    part = f"the fake kernel at {find_definition(record.fake)}"
    require_same_structure(record.name, part, due[0], results[0])
    got, expected = ([(value.shape, value.dtype) for value in flat] for _, flat in (results, due))
    if got != expected:
        raise ResultError(
            f"{record.name}: the kernel's results differ from those of its fake kernel. The kernel returned "
            f"{describe(list(results[1]))}, the fake kernel {describe(list(due[1]))}. Correct one of them: "
            "see register_fake."
        )


def _to_array(value: Any) -> Any:
    """Converts a number or numpy array to the array that the kernel got for it."""
    return value if isinstance(value, jax.Array) else jnp.asarray(value)


def _materialize(value: Any) -> Any:
    """Converts a shape or numpy array to an abstract array."""
    return zeros_of(value) if isinstance(value, _SHAPED) else value
