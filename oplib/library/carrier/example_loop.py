"""The loop over the examples of a batch, for kernels of plain Python that read values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp

from oplib.errors import ResultError, describe
from oplib.library.arguments.structure import Structure
from oplib.library.axes.levels import Levels
from oplib.tensor.storage.map_level import run_in_levels

Results = tuple[Structure, tuple[Any, ...]]


def run_examples(op: str, levels: Levels, arrays: Sequence[Any], run: Callable[..., Results]) -> Results:
    """Runs a kernel once for each example of a batch, and stacks the results.

    Args:
        op: the name of the op, for errors.
        levels: the levels of vmap, the innermost first; each has examples.
        arrays: arrays with values; the axis of the outermost level is in front.
        run: the kernel of one example.

    Raises:
        ResultError: the results of two examples differ in shape, dtype or number.
    """
    if not levels:
        return run_in_levels((), run, *arrays)  # no value is mapped any more, so a draw is for one example
    *inner, outermost = levels
    results: list[Results] = []
    for index in range(outermost.size):
        pairs = zip(arrays, outermost.batched, strict=True)
        example = [array[index] if is_batched else array for array, is_batched in pairs]
        results.append(run_examples(op, tuple(inner), example, run))
        _require_alike(op, results[0], results[-1])
    flat = zip(*(arrays for _, arrays in results), strict=True)
    return results[0][0], tuple(map(jnp.stack, flat))


def _require_alike(op: str, first: Results, other: Results) -> None:
    looks = [
        (structure, [(array.shape, array.dtype) for array in flat]) for structure, flat in (first, other)
    ]
    if looks[0] != looks[1]:
        raise ResultError(
            f"{op}: the results differ between the examples of a batch. The kernel reads values, so it runs "
            f"once for each example. Got {describe(list(first[1]))} and {describe(list(other[1]))}. Return "
            "the same shapes and dtypes for each, or register a rule for the whole batch with register_vmap."
        )
