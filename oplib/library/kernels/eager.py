"""Running eager kernels on Tensors: plain Python, on every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from oplib.autograd.array_functions.masks import pick_given
from oplib.library.arguments.keys import make_generator, to_key
from oplib.library.arguments.layout import copy_lists
from oplib.library.arguments.recording import box_results
from oplib.library.arguments.results import FORWARD, take_returned_arguments
from oplib.library.arguments.structure import pack
from oplib.library.arguments.trees import is_tree_leaf
from oplib.library.op_records.record import Function, Record
from oplib.library.schema import split_values
from oplib.modes import modes
from oplib.protocols import AnyFunction, Values
from oplib.tensor import Generator, Tensor, read_array
from oplib.tensor.storage.cut import cuts_results

from .kernel_choice import choose_kernel, find_device
from .tensor_kernel import (
    call_tensor_kernel,
    check_tensor_results,
    find_returned,
    find_tensors,
    find_written,
    note_versions,
    refuse_aliases,
    refuse_undeclared_writes,
)
from .tracing import any_traced, run_with_grad_off


def run_below_autograd(record: Record, values: Sequence[Any], *, forward: Function | None = None) -> Any:
    """Runs the kernel with grad mode off on the caller's own Tensors, and checks its results and writes.

    Args:
        record: the record of the op.
        values: the arguments of the call.
        forward: runs instead of the kernel.
    """
    inputs = find_tensors(values)
    kernel = forward or _choose(record, values, inputs)
    if record.is_custom and record.schema.is_mutable:
        for tensor in find_written(record, values):
            tensor._storage.version += 1
    versions = note_versions(inputs)
    args, kwargs = _split(record, values)
    result = run_with_grad_off(call_tensor_kernel, record, kernel, args, kwargs)
    refuse_undeclared_writes(record, values, versions)
    part = "the kernel" if forward is None else FORWARD
    return _finish(record, check_tensor_results(record, result, part), values)


def is_carried(record: Record, values: Sequence[Any]) -> bool:
    """Tells whether a call uses the op's primitive, through which JAX's transformations find its rules."""
    if record.kind != "tensor" or record.schema.is_mutable:
        return False
    has_rules = record.vmap is not None or record.jvp is not None or record.derivative.backward is not None
    return has_rules and any_traced(map(read_array, find_tensors(values)))


def run_carried(functional: AnyFunction, record: Record, values: Sequence[Any]) -> Any:
    """Runs the kernel through the op's function of arrays."""
    args, kwargs = split_values(record.schema, list(map(to_key, map(copy_lists, values))))
    return jax.tree_util.tree_map(_box_array, run_with_grad_off(functional, *args, **kwargs))


def _box_array(value: Any) -> Any:
    return box_results([value])[0] if isinstance(value, jax.Array) else value


def run_composite(record: Record, values: Sequence[Any]) -> Any:
    """Runs a composite kernel in the caller's grad mode: autograd sees the ops that it calls."""
    args, kwargs = _split(record, values)
    kernel = _choose(record, values, find_tensors(values))
    return pack(check_tensor_results(record, kernel(*args, **kwargs)))


def _choose(record: Record, values: Sequence[Any], inputs: Sequence[Tensor]) -> Any:
    if record.sole_kernel is not None:
        return record.sole_kernel
    return choose_kernel(record, [tensor._storage.array for tensor in inputs], find_device(record, values))


def _split(record: Record, values: Sequence[Any]) -> tuple[Values, dict[str, Any]]:
    return split_values(record.schema, list(map(_copy, values)))


def _copy(value: Any) -> Any:
    """Copies the values that a kernel may change, such as the Generator that a rule reads afterwards."""
    return make_generator(to_key(value)) if isinstance(value, Generator) else copy_lists(value)


def _finish(record: Record, results: list[Any], values: Sequence[Any]) -> Any:
    """Checks the results of a kernel beside its arguments, and removes their history.

    The exemption is a written argument, which an op of ``custom_op`` returns only under a tag.
    """
    refuse_aliases(record, results, values)
    indices = find_returned(record)
    if pick_given(indices):
        take_returned_arguments(record.name, record.schema, results, values)
    pairs = zip(results, indices, strict=True)
    return pack([_cut(result) if index is None else result for result, index in pairs])


def _cut(value: Any) -> Any:
    return jax.tree_util.tree_map(_cut_leaf, value, is_leaf=is_tree_leaf)


def _cut_leaf(leaf: Any) -> Any:
    is_cut = isinstance(leaf, Tensor) and (leaf._requires_grad or cuts_results(modes.state))
    return leaf._share() if is_cut else leaf
