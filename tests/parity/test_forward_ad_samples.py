"""Tangents through the samples of the built-in ops, on torch and on oplib in double precision.

A run takes twenty ops, drawn by ``OPLIB_OPS_SEED``; ``OPLIB_OPS_SAMPLES=all`` takes them all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oplib
from oplib.ops._functions import UPCALLS
from tests.ops.drawing import Sample
from tests.parity import test_op_samples as samples

torch = pytest.importorskip("torch")
with_64_bits = samples.with_64_bits  # a fixture, used by every test here


NOT_COMPARED = {
    "binary_cross_entropy_with_logits": "torch's tangent of the mean has the shape of the items",
    "linalg_cholesky": "of a tangent that is not symmetric each makes what it likes",
}


def choose() -> list[tuple[str, Sample]]:
    rng = random.Random(os.environ.get("OPLIB_OPS_SEED", "0"))
    by_op: dict[str, list[tuple[str, Sample]]] = {}
    for name, sample in samples.CASES:
        if name.partition(".")[0] not in NOT_COMPARED:
            by_op.setdefault(name, []).append((name, sample))
    ops = sorted(by_op)
    chosen = ops if os.environ.get("OPLIB_OPS_SAMPLES") == "all" else rng.sample(ops, 20)
    return [rng.choice(by_op[name]) for name in chosen]


def push(lib: Any, function: Callable[..., Any], sample: Sample) -> list[np.ndarray[Any, Any] | None]:
    """The tangents of the results, where every floating tensor among the arguments has one."""
    forward_ad = lib.autograd.forward_ad
    rng = np.random.default_rng(7)

    def lift(value: Any) -> Any:
        if isinstance(value, list):
            return [lift(one) for one in value]
        if not isinstance(value, lib.Tensor) or not value.requires_grad:
            return value
        tangent = rng.standard_normal(tuple(value.shape)).tolist()
        return forward_ad.make_dual(
            value.detach(), lib.tensor(tangent, dtype=value.dtype).reshape(value.shape)
        )

    args = [lift(samples.make(lib, value, [])) for value in sample.args]
    kwargs = {name: lift(samples.make(lib, value, [])) for name, value in sample.kwargs.items()}
    result = function(*args, **kwargs)
    results = result if isinstance(result, (tuple, list)) else [result]
    tangents = [forward_ad.unpack_dual(one).tangent for one in results]
    return [None if one is None else samples.to_numpy(one) for one in tangents]


@pytest.mark.parametrize(("name", "sample"), choose(), ids=lambda value: str(value))
def test_an_op_pushes_the_tangents_that_torch_pushes(name: str, sample: Sample) -> None:
    row = samples.BY_NAME[name]
    try:
        with torch.autograd.forward_ad.dual_level():
            theirs = push(torch, samples.find_torch(row), sample)
    except (RuntimeError, TypeError) as error:
        pytest.skip(f"torch has no such call, or no forward mode of it: {type(error).__name__}")
    with oplib.autograd.forward_ad.dual_level():
        ours = push(oplib, UPCALLS[row.op], sample)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine is None or (other is not None and mine.shape == other.shape)
        if other is not None:  # where torch has zeros, of steps such as floor, ops here are constants
            np.testing.assert_allclose(0.0 if mine is None else mine, other, rtol=1e-9, atol=1e-10)
