"""A registered batching rule, as what runs at the innermost level of vmap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from oplib.errors import ResultError
from oplib.tensor import box

from .layout import Layout
from .levels import Level
from .record import Record
from .recording import unbox
from .results import check_results
from .structure import Structure, make_structure
from .tracing import running


@dataclass(frozen=True, slots=True)
class VmapInfo:
    """What a batching rule is told.

    Attributes:
        batch_size: length of the mapped axis.
        randomness: ``"error"``, ``"same"`` or ``"different"``: how random ops are to behave.
    """

    batch_size: int
    randomness: str = "error"


def run_vmap_rule(
    record: Record, layout: Layout, level: Level, arrays: Sequence[Any]
) -> tuple[Structure, list[Any]]:
    """Runs ``rule(info, in_dims, *args)`` and brings every result's batch axis to the front."""
    assert record.vmap is not None
    boxed = record.takes_tensors
    args, kwargs = layout.split(layout.rebuild([box(value) for value in arrays] if boxed else arrays))
    dims, _ = layout.split(layout.rebuild_tangents(level.axes))
    with running(record.name, "vmap rule", eager=boxed):
        answer = record.vmap(VmapInfo(level.size), dims, *args, **kwargs)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ResultError(
            f"{record.name}: the vmap rule must give two returns, (output, out_dims). Got "
            f"{type(answer).__name__}. Return the batched output and the place of its batch axis."
        )
    output, out_dims = answer
    values = check_results(layout.schema)(output)
    dims_by_value = _spread_dims(record, out_dims, values)
    fronted = [_front(value, dim, level.size) for value, dim in zip(values, dims_by_value, strict=True)]
    return make_structure(fronted, 0, lambda value: isinstance(value, jax.Array))


def _spread_dims(record: Record, out_dims: Any, values: Sequence[Any]) -> list[Any]:
    """One entry per result: an int or None for all of them, or the same structure as the results."""
    if out_dims is None or isinstance(out_dims, int):
        return [out_dims] * len(values)
    given = [out_dims] if len(values) == 1 else list(out_dims)
    if len(given) != len(values):
        raise ResultError(
            f"{record.name}: vmap staticmethod returned incompatible out_dims: {len(given)} for "
            f"{len(values)} outputs. Return one int for all outputs, or the structure of the outputs."
        )
    return given


def _front(value: Any, dim: Any, size: int) -> Any:
    if isinstance(value, list):
        dims = dim if isinstance(dim, (list, tuple)) else [dim] * len(value)
        return [_front(member, place, size) for member, place in zip(value, dims, strict=True)]
    array = unbox(value)
    if not isinstance(array, jax.Array):
        return array
    return jnp.broadcast_to(array[None], (size, *array.shape)) if dim is None else jnp.moveaxis(array, dim, 0)
