"""``test_vmap``: whether an op and its formula compute the same under vmap and in a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.masks import find_true
from oplib.errors import MissingRuleError, ReadValueError

from .comparison import Tolerance, require_equal
from .sample import Sample, draw_like, is_inexact, only_arrays

_SCALES = (1.0, 0.9375)  # of the items of a batch: close to the point of the check, with the same signs


def check_vmap(sample: Sample, tolerance: Tolerance) -> str | None:
    """Maps the op over all arrays, each alone and all but each, its gradients over all; compares with loops.

    Returns:
        The reason, if nothing was compared.

    Raises:
        OpMismatchError: the values differ.
    """
    everything = [not number for number in sample.is_number]
    if not any(everything):
        return "there is no array to map over"
    name = sample.overload.name()
    arrays = list(map(jnp.asarray, sample.arrays))
    try:
        for mapped in _choose_mapped(everything):
            names = ", ".join(sample.name(index) for index, is_mapped in enumerate(mapped) if is_mapped)
            _compare(
                lambda *values: only_arrays(sample.call_arrays(values)),
                _Batch(arrays, mapped),
                tolerance,
                f"{name}: the outputs are different under vmap over {names} and one by one",
            )
        if sample.needs_grad and sample.has_backward:
            _compare_gradients(sample, arrays, everything, tolerance)
    except MissingRuleError as error:
        return f"there is no batching rule: {str(error).splitlines()[0]}"
    except ReadValueError:
        return "the kernel reads values, so only a batching rule maps it"
    return None


def _choose_mapped(everything: list[bool]) -> list[list[bool]]:
    """Returns masks of the arrays to map over: all, each alone, and all but each."""
    indices = find_true(everything)
    alone = [[index == only for index in range(len(everything))] for only in indices]
    others = [
        [mapped and index != left_out for index, mapped in enumerate(everything)] for left_out in indices
    ]
    return [everything, *(alone if len(indices) > 1 else []), *(others if len(indices) > 2 else [])]


class _Batch:
    """Arrays, some of which have items stacked along a new first dimension."""

    def __init__(self, arrays: Sequence[Any], mapped: Sequence[bool]) -> None:
        self._arrays = arrays
        self.in_axes = tuple(0 if is_mapped else None for is_mapped in mapped)
        pairs = list(zip(arrays, mapped, strict=True))
        self.members = [
            [_scale(array, scale) if is_mapped else array for array, is_mapped in pairs] for scale in _SCALES
        ]
        self.stacked = [
            jnp.stack([member[index] for member in self.members]) if is_mapped else array
            for index, (array, is_mapped) in enumerate(pairs)
        ]


def _scale(array: Any, scale: float) -> Any:
    return (array * scale).astype(array.dtype) if is_inexact(array) else array


def _compare(function: Callable[..., list[Any]], batch: _Batch, tolerance: Tolerance, what: str) -> None:
    actual = jax.vmap(function, in_axes=batch.in_axes)(*batch.stacked)
    rows = [function(*member) for member in batch.members]
    expected = list(map(jnp.stack, zip(*rows, strict=True)))
    require_equal(
        actual, expected, tolerance, what, advice="Correct the function registered with register_vmap."
    )


def _compare_gradients(
    sample: Sample, arrays: Sequence[Any], mapped: Sequence[bool], tolerance: Tolerance
) -> None:
    """Maps the backward over the arguments and over the cotangents of the results."""
    call, point = sample.as_function(arrays)
    cotangents = draw_like(call(*point), seed=1)

    def pull_back(*values: Any) -> list[Any]:
        function, at = sample.as_function(values[: len(arrays)])
        return list(jax.vjp(function, *at)[1](list(values[len(arrays) :])))

    _compare(
        pull_back,
        _Batch([*arrays, *cotangents], [*mapped, *([True] * len(cotangents))]),
        tolerance,
        f"{sample.overload.name()}: the gradients are different under vmap and one by one",
    )
