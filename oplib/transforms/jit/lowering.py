"""Programs of Tensors without values: ahead of time, for devices that may not be there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh

from oplib.tensor.devices.layout import find_spread
from oplib.transforms.tracing.paths import Walk
from oplib.transforms.tracing.pruning import prune

from .call_trace import Trace


def has_no_values(walk: Walk, arrays: Iterable[Any]) -> bool:
    """Whether an operand of a function is a ``jax.ShapeDtypeStruct``."""
    held = [path.value._storage.owner.spec for path in walk.tensors.values()]
    return any(isinstance(array, jax.ShapeDtypeStruct) for array in (*held, *arrays))


def lower_without_values(trace: Trace, arrays: Sequence[Any]) -> jax.stages.Lowered:
    """Returns the program of a trace. The buffers of written Tensors are used again.

    Args:
        trace: what the function did.
        arrays: the array arguments.
    """
    inputs = [*trace.candidates.read(), *arrays]
    used, run = prune(trace.run, trace.closed, trace.name)
    read = [array for array, use in zip(inputs, used, strict=True) if use]
    numbers = {operand: number for number, operand in enumerate(trace.candidates.holders)}
    written = {numbers[operand] for operand, output, _ in trace.effects.writes if output is not None}
    kept = [number for number, use in enumerate(used) if use]
    donated = [place for place, number in enumerate(kept) if number in written and trace.backward is None]
    layouts = trace.layouts if any(trace.layouts) else None
    traced = jax.jit(run, donate_argnums=donated, out_shardings=layouts).trace(*read)
    is_elsewhere = any(isinstance(getattr(find_spread(array), "mesh", None), AbstractMesh) for array in read)
    return traced.lower(lowering_platforms=(jax.default_backend(),) if is_elsewhere else None)
