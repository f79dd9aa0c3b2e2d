"""A registered batching rule, which runs at the innermost level of vmap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.errors import DimensionError, ResultError, describe
from oplib.frozen import frozen
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.results import check_results, leave_out_returned_arguments
from oplib.library.arguments.structure import Structure, make_structure, require_same_structure
from oplib.library.batching_and_sharding.levels import Level
from oplib.library.kernels.array_kernel import read_result, split_written
from oplib.library.kernels.tracing import run_part
from oplib.library.op_records.record import Record
from oplib.library.op_records.sites import find_definition
from oplib.tensor import box


@frozen
class VmapInfo:
    """The information that a batching rule gets.

    Attributes:
        batch_size: the length of the mapped axis.
        randomness: ``"error"``, ``"same"`` or ``"different"``: the behaviour of random ops.
    """

    batch_size: int
    randomness: str = "error"


@jax.tree_util.register_static
@frozen
class Shared:
    """For each flat result, whether it is one for the whole batch: its position is None."""

    flags: tuple[bool, ...]


Batched = tuple[Structure, Sequence[Any], Shared]


def run_vmap_rule(record: Record, layout: Layout, level: Level, arrays: Sequence[Any]) -> Batched:
    """Runs ``rule(info, in_dims, *args)`` and moves the batch axis of every result to the front.

    A result without a batch axis is repeated, because kernel and rules have one for each example.

    Raises:
        ResultError: the rule returns no pair, or positions of the batch axis that do not fit the results.
        DimensionError: a result does not have the position of the batch axis.
    """
    assert record.vmap is not None
    boxed = record.takes_tensors
    arguments = layout.rebuild(list(map(box, arrays)) if boxed else arrays)
    dims = layout.spread_facts(level.axes, absent=None)
    args, kwargs = layout.split(arguments)
    rule, info = record.vmap, VmapInfo(level.size, level.randomness)
    answer = run_part(
        lambda: rule(info, layout.split(dims)[0], *args, **kwargs),
        record.name,
        "vmap rule",
        eager=record.is_untraced,
    )
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ResultError(
            f"{record.name}: the vmap rule must give two returns, (output, out_dims). Got "
            f"{type(answer).__name__}. Return the batched output and the place of its batch axis."
        )
    values, out_dims = _complete(record, layout, answer, list(zip(arguments, dims, strict=True)))
    subject = f"{record.name}: {_name_rule(record)}"
    structure, flat = make_structure(values, len(layout.written_indices), read_result, subject=subject)
    spread = _spread_dims(record, out_dims, structure)
    fronted = [_front(record, *pair, level.size) for pair in zip(flat, spread, strict=True)]
    return structure, fronted, Shared(tuple(dim is None for dim in spread))


def check_batched(record: Record, batched: Batched, due: tuple[Structure | None, Sequence[Any]]) -> None:
    """Compares the results of a batching rule with those of the kernel for one example.

    Args:
        record: the record of the op.
        batched: the results of its batching rule, with the batch in front.
        due: structure, shapes and dtypes of the kernel's results, if they are known.

    Raises:
        ResultError: the rule returns another structure, or says of a batched result that it is not batched.
    """
    structure, flat, shared = batched
    tree, avals = due
    part = _name_rule(record)
    if tree is not None:
        require_same_structure(record.name, part, structure, tree)
    for index, (value, is_shared, aval) in enumerate(zip(flat, shared.flags, avals, strict=bool(avals))):
        size, *shape = value.shape
        own = aval.shape
        if is_shared and any([*own[:axis], size, *own[axis:]] == shape for axis in range(len(shape))):
            raise ResultError(
                f"{record.name}: result {index} of {part} is batched, and its place "
                f"of the batch axis is None. Got {describe(jax.ShapeDtypeStruct(shape, value.dtype))} for a "
                f"batch of {size}; the kernel returns {describe(aval)} for one example. Return the place."
            )


def _name_rule(record: Record) -> str:
    """Returns how errors call the rule."""
    return f"the vmap rule at {find_definition(record.vmap)}"


def _complete(
    record: Record, layout: Layout, answer: tuple[Any, Any], arguments: list[tuple[Any, Any]]
) -> tuple[list[Any], list[Any]]:
    """Returns one value and the positions per written argument and result; eager rules write in place."""
    output, out_dims = answer
    indices = layout.written_indices
    if indices and not record.takes_tensors:
        values = split_written(record, layout, indices, output)
        return values, _list_dims(record, out_dims, values)
    values = check_results(layout.schema, _name_rule(record))(output)
    pairs = list(zip(values, _list_dims(record, out_dims, values), strict=True))
    written = [arguments[index] for index in indices]
    pairs = [*written, *leave_out_returned_arguments(layout.schema, pairs)]
    return [value for value, _ in pairs], [dim for _, dim in pairs]


def _list_dims(record: Record, out_dims: Any, values: Sequence[Any]) -> list[Any]:
    """Returns the positions for each result, from an int or None for all, or from one entry per result."""
    if _is_dim(out_dims):
        return [out_dims] * len(values)
    entries = out_dims if isinstance(out_dims, tuple) and len(values) != 1 else (out_dims,)
    if len(entries) != len(values):
        raise _refuse_dims(record, out_dims, describe(tuple(values)))
    return list(entries)


def _spread_dims(record: Record, dims: Sequence[Any], structure: Structure) -> list[Any]:
    """Returns the position for each array."""
    try:
        spread = structure.spread(dims, _is_dim)
    except ValueError:
        spread = [()]
    if not all(map(_is_dim, spread)):
        shown = dims[0] if len(dims) == 1 else tuple(dims)
        results = repr(structure)
        raise _refuse_dims(record, shown, "one array" if results == "*" else results)
    return spread


def _refuse_dims(record: Record, out_dims: Any, results: str) -> ResultError:
    return ResultError(
        f"{record.name}: the vmap staticmethod returned incompatible out_dims. Got {out_dims!r} for "
        f"{results}. Return one int for all outputs, or the structure of the outputs with "
        "an int or None for each; a bool, as of a rule of JAX's custom_vmap, is no position."
    )


def _is_dim(dim: Any) -> bool:
    """Tells whether this is a position or None. As a position, the True of a rule of JAX would be axis 1."""
    return dim is None or (isinstance(dim, int) and not isinstance(dim, bool))


def _front(record: Record, array: Any, dim: Any, size: int) -> Any:
    if dim is None:
        return jnp.broadcast_to(array[None], (size, *array.shape))
    if not -array.ndim <= dim < array.ndim:
        raise DimensionError(
            f"{record.name}: the vmap rule gave a place of the batch axis that is out of range. Got {dim} "
            f"for {describe(array)}. Return a place from {-array.ndim} to {array.ndim - 1}."
        )
    if array.shape[dim] != size:
        raise ResultError(
            f"{record.name}: the vmap rule gave a result of another batch size. Got {describe(array)} with "
            f"the batch at {dim}, and the batch has {size}. Return one example for each of them."
        )
    return jnp.moveaxis(array, dim, 0)
