"""``test_faketensor``: whether the fake kernel agrees with the kernel."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

from oplib.errors import OpMismatchError
from oplib.library.carrier.shape_evaluation import eval_shape
from oplib.library.kernels.running import run_kernel
from oplib.tensor import Tensor

from .comparison import Tolerance
from .sample import Sample, flatten
from .sizes import check_other_sizes


def check_fake(sample: Sample, tolerance: Tolerance) -> None:
    """Compares shapes and dtypes of the fake kernel, or of a trace of the kernel, with those of calls.

    Raises:
        MissingRuleError: the op needs a fake kernel and has none.
        OpMismatchError: they differ.
    """
    del tolerance
    record = sample.overload.record
    predicted = flatten(sample.apply(partial(eval_shape, sample.overload), sample.arrays))
    structure, outputs = run_kernel(record, sample.layout, sample.arrays)
    given = flatten(structure.arrange_returns(outputs))
    beginning = f"{record.name}: the fake kernel and the kernel differ"
    advice = "Correct the function registered with register_fake."
    if len(predicted) != len(given):
        raise OpMismatchError(
            f"{beginning}. The fake kernel returns {len(predicted)} values, the kernel {len(given)}. {advice}"
        )
    for place, (fake, real) in enumerate(zip(predicted, given, strict=True)):
        if difference := _find_difference(fake, real):
            raise OpMismatchError(f"{beginning}. At position {place}: {difference}. {advice}")
    check_other_sizes(sample)


def _find_difference(fake: Any, real: Any) -> str:
    told = isinstance(fake, (jax.ShapeDtypeStruct, Tensor, jax.Array))
    if told != isinstance(real, (Tensor, jax.Array, np.ndarray)):
        return f"{type(fake).__name__} and {type(real).__name__} are not of one kind"
    if not told:
        return "" if fake == real else f"{fake!r} and {real!r} are not equal"
    if tuple(fake.shape) != tuple(real.shape):
        return f"Shapes {tuple(fake.shape)} and {tuple(real.shape)} are not equal"
    if np.dtype(fake.dtype) != np.dtype(real.dtype):
        return f"Dtypes {np.dtype(fake.dtype).name} and {np.dtype(real.dtype).name} are not equal"
    return ""
