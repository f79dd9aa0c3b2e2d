"""Results that the examples of a batch share, because the batching rule says so.

The carrier repeats them for each example, because its rules are for one. JAX gets the first, without a batch
axis. Its cotangent then counts once, and not once for each example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.array_functions.liveness import find_dependent
from oplib.library.axes.levels import Level, Levels, take_examples

from .bound_call import BoundCall


def find_shared(call: BoundCall, levels: Levels, level: Level, arrays: Sequence[Any]) -> Mask:
    """Tells for each result of a call whether all examples of the outermost level share it.

    JAX maps the batching rule over outer levels. There such a result is shared if it reads no batched input.

    Args:
        call: the bound call of an op with a batching rule.
        levels: the inner levels.
        level: the outermost level.
        arrays: the arrays of the call, batched according to all levels.
    """
    if not levels:
        return call.find_shared(level, arrays)
    inner = take_examples((level,), arrays)
    shared = find_shared(call, levels[:-1], levels[-1], inner)
    depends = find_dependent(
        call.trace(levels, inner, in_parts=False).jaxpr, level.batched, skips_choices=False
    )
    return tuple(is_shared and not reads for is_shared, reads in zip(shared, depends, strict=True))
