"""Eager kernels: plain Python on Tensors, their results, and their execution on arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.concreteness import VALUE_ERRORS
from oplib.errors import AutogradError, ReadValueError, ResultError, describe
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.plain_conversions import is_array
from oplib.library.arguments.results import check_results, take_returned_arguments
from oplib.library.arguments.structure import Results, make_structure
from oplib.library.arguments.trees import is_tree_leaf
from oplib.library.op_records.record import Function, Record, Tag
from oplib.library.op_records.sites import find_line
from oplib.protocols import Values
from oplib.tensor import Tensor, box

from .tracing import any_traced, run_part

_ATOMS = frozenset((int, float, bool, complex, str, type(None)))
_OTHERS_ERROR = re.compile(r"\w+::")  # the error already names an op that the kernel calls


def run_tensor_kernel(record: Record, kernel: Function, layout: Layout, arrays: Sequence[Any]) -> Results:
    """Runs an eager kernel on Tensors around arrays or tracers; the values that it wrote come first."""
    values = layout.rebuild([box(jnp.asarray(value)) for value in arrays])
    args, kwargs = layout.split(values)
    versions = note_versions(find_tensors(values))

    def run() -> list[Any]:
        return check_tensor_results(record, call_tensor_kernel(record, kernel, args, kwargs))

    returned = run_part(run, record.name, "kernel", eager=True)
    refuse_undeclared_writes(record, values, versions)
    refuse_aliases(record, returned, values)
    rest = take_returned_arguments(record.name, layout.schema, returned, values)
    written = [values[index] for index in layout.written_indices]
    structure, flat = _split(record, [*written, *rest], written=len(written))
    return structure, [tensor._storage.array for tensor in flat]


def split_tensor_results(record: Record, result: Any, part: str = "the kernel") -> Results:
    """Checks the results of a kernel or forward that writes nothing, and splits them into Tensors."""
    return _split(record, check_tensor_results(record, result, part), part)


def _split(record: Record, results: Sequence[Any], part: str = "the kernel", written: int = 0) -> Results:
    return make_structure(results, written, _read, subject=f"{record.name}: {part}")


def _read(value: Any) -> Any:
    return value if isinstance(value, Tensor) else None


def call_tensor_kernel(record: Record, kernel: Function, args: Values, kwargs: dict[str, Any]) -> Any:
    """Calls an eager kernel.

    Raises:
        ReadValueError: the kernel read the values of a Tensor that is being traced; the text names the line.
    """
    try:
        return kernel(*args, **kwargs)
    except VALUE_ERRORS as error:
        tensors = find_tensors([*args, *kwargs.values()])
        if not any_traced(tensor._storage.array for tensor in tensors) or _OTHERS_ERROR.match(str(error)):
            raise
        better = ReadValueError(
            f"{record.name}: the kernel reads values while it is traced, at {find_line(error)}. "
            f"{str(error).splitlines()[0]} Or annotate the kernel numpy.ndarray, with a fake kernel: then it "
            "runs on the host and can read values. For vmap, register_vmap takes a rule for the whole batch."
        )
        raise better.with_traceback(error.__traceback__) from None


def find_tensors(values: Iterable[Any]) -> list[Tensor]:
    """Returns the Tensors among values, and in the trees among them."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif value.__class__ not in _ATOMS:
            leaves = jax.tree_util.tree_leaves(value, is_leaf=is_tree_leaf)
            tensors.extend([leaf for leaf in leaves if isinstance(leaf, Tensor)])
    return tensors


def find_written(record: Record, values: Sequence[Any]) -> list[Tensor]:
    """Returns the Tensors that the schema declares as written."""
    pairs = zip(record.schema.arguments, values, strict=True)
    return find_tensors([value for argument, value in pairs if argument.is_written])


def note_versions(tensors: Sequence[Tensor]) -> list[tuple[Tensor, int]]:
    """Returns Tensors with their current versions."""
    return [(tensor, tensor._storage.version) for tensor in tensors]


def refuse_undeclared_writes(
    record: Record, values: Sequence[Any], before: Sequence[tuple[Tensor, int]]
) -> None:
    """Raises AutogradError if a kernel has written an argument without a declaration in its schema."""
    changed = [tensor for tensor, version in before if tensor._storage.version != version]
    if not changed:
        return
    declared = {id(tensor._storage.owner) for tensor in find_written(record, values)}
    for tensor in changed:
        if id(tensor._storage.owner) not in declared:  # a view of a written argument sees the write
            pairs = zip(record.schema.arguments, values, strict=True)
            name = next(
                argument.name
                for argument, value in pairs
                if any(member is tensor for member in find_tensors([value]))
            )
            raise AutogradError(
                f"{record.name}: the kernel wrote argument '{name}', which is not defined as mutable but was "
                f"mutated. It is {describe(tensor)} at version {tensor._storage.version}. "
                f"Declare it: mutates_args=('{name}',), or write into a clone."
            )


def find_returned(record: Record) -> Sequence[int | None]:
    """Returns for each result the index of the written argument that stands there; None for another."""
    if record.is_custom and Tag.inplace not in record.tags and Tag.out not in record.tags:
        return (None,) * len(record.schema.returns)
    return record.schema.returned_arguments


def refuse_aliases(record: Record, results: Sequence[Any], values: Sequence[Any]) -> None:
    """Raises ResultError if a result shares memory with an argument or another result without declaration."""
    if Tag.view in record.tags:
        return
    seen = {id(tensor._storage.owner) for tensor in find_tensors(values)}
    triples = zip(results, find_returned(record), record.schema.returns, strict=True)
    new = [result for result, index, declared in triples if index is None and not declared.is_view]
    for tensor in find_tensors(new):
        if id(tensor._storage.owner) in seen:
            raise ResultError(
                f"{record.name}: The output of this custom operator (1) must not also be an input to this "
                "custom operator and (2) may not alias any inputs to this custom operator or other returns. "
                f"{describe(tensor)} shares memory with one. Return a copy: tensor.clone()."
            )
        seen.add(id(tensor._storage.owner))


def check_tensor_results(record: Record, result: Any, part: str = "the kernel") -> list[Any]:
    """Checks the results of an eager kernel, which takes Tensors and must return Tensors.

    Raises:
        ResultError: a result does not fit the schema, or is an array instead of a Tensor.
    """
    results = check_results(record.schema, part)(result)
    for value in results:
        leaves = () if isinstance(value, Tensor) else jax.tree_util.tree_leaves(value, is_leaf=is_tree_leaf)
        for member in leaves:
            if is_array(member) and not isinstance(member, Tensor):
                raise ResultError(
                    f"{record.name}: {part} works on Tensors and returned an array. Got "
                    f"{describe(member)}, of type {type(member).__name__}. Return "
                    "oplib.Tensor.from_array(value), or annotate the kernel jax.Array."
                )
    if record.schema.has_result_tree:
        _split(record, results, part)
    return results
