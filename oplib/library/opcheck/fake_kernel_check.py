"""``test_faketensor``: whether the fake kernel agrees with the kernel, in other sizes than the call's too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from oplib.errors import OpMismatchError, ResultError
from oplib.library.arguments.structure import Results
from oplib.library.jax_primitives.shape_evaluation import eval_shape
from oplib.library.kernels.fake_kernel import compare_with_fake
from oplib.library.kernels.running import run_kernel, trace_kernel
from oplib.tensor import Tensor

from .comparison import Tolerance, find_difference_of_types
from .sample import Sample, flatten


def check_fake(sample: Sample, _: Tolerance) -> None:
    """Compares shapes and dtypes of the fake kernel, or of a trace of the kernel, with those of calls.

    Raises:
        MissingRuleError: the op needs a fake kernel and has none.
        OpMismatchError: they differ.
    """
    record = sample.overload.record
    predicted = flatten(sample.apply(partial(eval_shape, sample.overload), sample.arrays))
    structure, outputs = run_kernel(record, sample.layout, sample.arrays)
    actual = flatten(structure.arrange_returns(outputs))
    beginning = f"{record.name}: the fake kernel and the kernel differ"
    advice = "Correct the function registered with register_fake."
    if len(predicted) != len(actual):
        raise OpMismatchError(
            f"{beginning}. The fake kernel returns {len(predicted)} values, the kernel {len(actual)}. "
            f"{advice}"
        )
    for index, (fake, real) in enumerate(zip(predicted, actual, strict=True)):
        if difference := _find_difference(fake, real):
            raise OpMismatchError(f"{beginning}. At position {index}: {difference}. {advice}")
    check_other_sizes(sample)


def _find_difference(fake: Any, real: Any) -> str:
    told = isinstance(fake, (jax.ShapeDtypeStruct, Tensor, jax.Array))
    if told != isinstance(real, (Tensor, jax.Array, np.ndarray)):
        return f"{type(fake).__name__} and {type(real).__name__} are not of one kind"
    if not told:
        return "" if fake == real else f"{fake!r} and {real!r} are not equal"
    return find_difference_of_types(fake, real)


_LIMIT = 60
"""Up to this number of variations are tried."""


def check_other_sizes(sample: Sample) -> None:
    """Compares fake kernel and kernel for arrays of other sizes; sizes that one of them refuses are left out.

    Each size of the arguments is varied, in all dimensions that have it and in each of them alone: to a
    larger one, to 1 and to 0. Kernels on arrays are only traced.

    Raises:
        OpMismatchError: they differ.
    """
    record = sample.overload.record
    if record.fake is None or record.schema.is_mutable:
        return
    for shapes in list(_vary(sample))[:_LIMIT]:
        arrays = [_resize(array, shape) for array, shape in zip(sample.arrays, shapes, strict=True)]
        try:
            results = _run(sample, arrays)
        except Exception:  # noqa: BLE001  the kernel does not take these sizes
            continue
        try:
            compare_with_fake(record, sample.layout, arrays, results, warns=False)
        except ResultError as error:
            raise OpMismatchError(
                f"{record.name}: the fake kernel is right for the given arguments, and wrong for arguments "
                f"of the shapes {', '.join(str(tuple(array.shape)) for array in arrays)}. {error}"
            ) from None


def _run(sample: Sample, arrays: Sequence[Any]) -> Results:
    record, layout = sample.overload.record, sample.layout
    if record.kind == "array":
        return jax.eval_shape(lambda *values: trace_kernel(record, layout, values), *arrays)
    return run_kernel(record, layout, arrays)


def _vary(sample: Sample) -> Iterator[list[tuple[int, ...]]]:
    """Yields the shapes of the arrays, with one size varied."""
    shapes = [tuple(array.shape) for array in sample.arrays]
    numbers = sample.is_number
    axes = [
        (index, axis)
        for index, shape in enumerate(shapes)
        if not numbers[index]
        for axis in range(len(shape))
    ]
    sizes = sorted({shapes[index][axis] for index, axis in axes})
    groups = [[spot for spot in axes if shapes[spot[0]][spot[1]] == size] for size in sizes]
    groups += [[spot] for spot in axes if [spot] not in groups]
    larger = max(sizes, default=0) + 3  # no axis has this size, so it broadcasts with none
    for new in (larger, 1, 0):
        for group in groups:
            yield [
                tuple(new if (index, axis) in group else size for axis, size in enumerate(shape))
                for index, shape in enumerate(shapes)
            ]


def _resize(array: Any, shape: tuple[int, ...]) -> Any:
    """Repeats or cuts an array to another shape."""
    if tuple(array.shape) == shape:
        return array
    return jax.numpy.asarray(np.resize(np.asarray(array), shape).astype(array.dtype))
