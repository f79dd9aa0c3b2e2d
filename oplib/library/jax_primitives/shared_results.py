"""Results that the examples of a batch share: a batching rule says so, or they do not depend on the batch.

The carrier repeats them for each example, because its rules are for one. JAX gets the first, without a batch
axis. Its cotangent then counts once, and not once for each example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.array_functions.liveness import find_dependent
from oplib.library.batching_and_sharding.levels import Level, Levels, take_examples, take_first

from .bound_call import BoundCall
from .unmapped_values import read_unmapped


def find_shared(call: BoundCall, levels: Levels, level: Level, arrays: Sequence[Any]) -> Mask:
    """Tells for each result of a call whether all examples of the outermost level share it.

    Without a batching rule JAX decides: a result is shared if it reads no batched input, or is the same for
    all, as that of ``pmean`` is. JAX maps a batching rule over outer levels. There the second does not count.

    Args:
        call: the bound call.
        levels: the inner levels.
        level: the outermost level.
        arrays: the arrays of the call, batched according to all levels.
    """
    if call.record.vmap is None:
        return _find_derived(call, levels, level, arrays)
    if not levels:
        return call.find_shared(level, arrays)
    inner = take_examples((level,), arrays)
    shared = find_shared(call, levels[:-1], levels[-1], inner)
    depends = find_dependent(
        call.trace(levels, inner, in_parts=False).jaxpr, level.batched, skips_choices=False
    )
    return tuple(is_shared and not reads for is_shared, reads in zip(shared, depends, strict=True))


def take_shared(
    call: BoundCall, levels: Levels, level: Level, arrays: Sequence[Any], outputs: Sequence[Any]
) -> Any:
    """Returns the results of a batched call and their batch axes; of shared ones the first, without one."""
    return take_first(outputs, find_shared(call, levels, level, arrays) if level.size else ())


def _find_derived(call: BoundCall, levels: Levels, level: Level, arrays: Sequence[Any]) -> Mask:
    """Asks JAX, once per signature; results of built-in ops, and of plain Python, count as batched."""
    if call.is_plain or call.record.is_built_in:
        return ()
    shared, key = call.code.shared, (levels, level, *map(jax.typeof, arrays))
    if key not in shared:

        def run(index: Any, *values: Any) -> tuple[()]:
            outputs = read_unmapped(index, call.map(levels)(*values)[1])
            shared[key] = tuple([not output.is_batched for output in outputs])
            return ()

        indices = jax.ShapeDtypeStruct((level.size,), jnp.int32)
        jax.eval_shape(level.map(run, (0, *level.axes)), indices, *arrays)
    return shared[key]
