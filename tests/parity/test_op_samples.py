"""The samples of the built-in ops on torch and on oplib: values, dtypes and gradients in double precision.

A run takes some samples of each op, drawn by ``OPLIB_OPS_SEED``; ``OPLIB_OPS_SAMPLES=all`` takes them all.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from oplib.ops._functions import OVERLOADS, ROWS, UPCALLS
from oplib.ops._table import Row
from tests.ops.drawing import Sample
from tests.ops.samples import find_samples

torch = pytest.importorskip("torch")

# What cannot be called alike on both sides, and why.
NOT_COMPARED = {
    "sdpa": "torch has it with other arguments: see test_networks",
    "flash_attention": "torch has it with other arguments: see test_networks",
    "flash_attention_backward": "torch has no such function",
    "native_batch_norm": "torch's gives other moments: see test_networks",
    "native_instance_norm": "torch has it with running moments: see test_networks",
    "fixed_batch_norm": "torch has it as batch_norm with training=False: see test_networks",
    "tensordot": "the schema names dims apart: see test_networks",
    "einsum": "the schema takes a list: see test_networks",
    "linalg_qr": "a decomposition is unique but for signs: the product is compared in test_networks",
    "linalg_svd": "a decomposition is unique but for signs: the product is compared in test_networks",
    "linalg_eigh": "a decomposition is unique but for signs: the product is compared in test_networks",
    "linalg_lstsq": "torch gives residuals, rank and singular values too",
    "rdiv": "an operator of Tensor",
    "index": "an operator of Tensor",
    "select": "an operator of Tensor",
    "slice": "an operator of Tensor",
    "setitem": "an operator of Tensor",
    "sum_to_size": "a method of Tensor",
    "view": "a method of Tensor",
    "expand": "a method of Tensor",
    "copy": "a method of Tensor, in place",
    "fill": "a method of Tensor, in place",
    "zero": "a method of Tensor, in place",
    "_to_copy": "what Tensor.to calls",
    "alias": "what detach calls",
    "hardsigmoid": "torch's gradient has a sixth in single precision",
}


def find_torch(row: Row) -> Callable[..., Any] | None:
    """Returns torch's function, by the path that the table names."""
    found: Any = torch
    for part in row.origin.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def choose() -> list[tuple[str, Sample]]:
    chosen: list[tuple[str, Sample]] = []
    for row in ROWS:
        draws = "Generator" in row.schema  # other numbers than torch: see test_random
        if draws or row.op in NOT_COMPARED or find_torch(row) is None:
            continue
        samples = find_samples(OVERLOADS[row.name])
        if os.environ.get("OPLIB_OPS_SAMPLES") != "all":
            rng = random.Random(f"{os.environ.get('OPLIB_OPS_SEED', '0')} {row.name}")
            samples = rng.sample(samples, min(1, len(samples)))
        chosen += [(row.name, sample) for sample in samples]
    return chosen


CASES = choose()
BY_NAME = {row.name: row for row in ROWS}


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def make(lib: Any, value: Any, leaves: list[Any]) -> Any:
    """Turns the arrays of a sample into tensors, floating ones into leaves."""
    if isinstance(value, np.ndarray):
        own = value.astype(np.int64) if value.dtype == np.int32 else value
        tensor = lib.tensor(own.tolist(), dtype=getattr(lib, own.dtype.name)).reshape(own.shape)
        if own.dtype.kind in "fc":
            tensor = tensor.detach().requires_grad_()
            leaves.append(tensor)
        return tensor
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [make(lib, item, leaves) for item in value]
    if isinstance(value, np.dtype):
        return getattr(lib, value.name)
    return value


def run(lib: Any, function: Callable[..., Any], sample: Sample) -> tuple[list[Any], list[Any], list[str]]:
    leaves: list[Any] = []
    args = [make(lib, value, leaves) for value in sample.args]
    kwargs = {name: make(lib, value, leaves) for name, value in sample.kwargs.items()}
    result = function(*args, **kwargs)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    floating = [one for one in results if one.requires_grad]
    total = sum(
        ((one * one.conj()).abs() if one.is_complex() else one * one * 0.5 + one).sum() for one in floating
    )
    if floating:
        total.backward()
    gradients = [np.zeros(leaf.shape) if leaf.grad is None else to_numpy(leaf.grad) for leaf in leaves]
    return [to_numpy(one) for one in results], gradients, [name_dtype(one) for one in results]


def to_numpy(tensor: Any) -> np.ndarray:
    return np.asarray(
        tensor.detach().resolve_conj().numpy(force=True)
        if isinstance(tensor, torch.Tensor)
        else tensor.detach().array
    )


def name_dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


@pytest.mark.parametrize(("name", "sample"), CASES, ids=lambda value: str(value))
def test_an_op_gives_what_torch_gives_with_its_gradients(name: str, sample: Sample) -> None:
    row = BY_NAME[name]
    try:
        theirs = run(torch, find_torch(row), sample)
    except (RuntimeError, TypeError) as error:
        pytest.skip(f"torch has no such call, or no gradient of it: {type(error).__name__}")
    ours = run(oplib, UPCALLS[row.op], sample)
    assert ours[2] == theirs[2]
    for mine, other in zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True):
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-10)
