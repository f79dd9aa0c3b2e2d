"""Every built-in op on an accelerator: values and gradients on the tape, against a CPU.

A seeded run draws ops; ``OPLIB_OPS_SAMPLES=all`` takes all samples of all, and ``OPLIB_SLICE=2/8`` the second
of eight slices of the ops. ``device.py`` says which device is tested.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.tensor import Tensor
from tests import seed
from tests.accelerators.device import ACCELERATOR, IS_CPU, REFERENCE, needs_accelerator
from tests.builtin.grid.calls import OPS, Call, as_tuple, find_call
from tests.builtin.grid.check import may_differentiate
from tests.builtin.grid.checks_derivatives import differentiate
from tests.builtin.grid.grid import limit_compiled_programs
from tests.builtin.samples.samples import find_samples

pytestmark = needs_accelerator
DRAWN = 40 if IS_CPU else len(OPS)
TOLERANCES = {"float64": 1e-9, "float32": 2e-4}
# An LU decomposition may take another row of equal size, and a decomposition other signs.
UNSTABLE_IN_SINGLE = (
    "linalg_",
    "lu_",
    "svd",
    "eig",
    "qr",
    "ormqr",
    "geqrf",
    "slogdet",
    "logdet",
    "pinv",
    "lstsq",
)
SIGNS_ARE_FREE = ("linalg_svd",)  # of the columns, together with those of the rows


def cut_slice(names: list[str]) -> list[str]:
    """Returns the part of the ops that this process takes."""
    part, _, parts = os.environ.get("OPLIB_SLICE", "1/1").partition("/")
    return names[int(part) - 1 :: int(parts)]


def narrow(call: Call, dtype: str) -> list[np.ndarray]:
    """Returns the arrays of a call in single precision, if this is wanted."""
    kinds = {"f": np.float32, "c": np.complex64}
    if dtype == "float64":
        return call.arrays
    return [array.astype(kinds.get(array.dtype.kind, array.dtype)) for array in call.arrays]


def run_on(device: Any, call: Call, dtype: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the results of a call on a device, and the gradients by its floating arguments."""
    has_gradient = may_differentiate(call.name, call.sample)
    with jax.default_device(device):
        leaves = [
            Tensor.from_array(jnp.asarray(array), requires_grad=has_gradient and place in call.places)
            for place, array in enumerate(narrow(call, dtype))
        ]
        results = as_tuple(call.run(*leaves))
        gradients: list[Any] = []
        if has_gradient and not call.name.startswith(SIGNS_ARE_FREE):
            gradients = differentiate(call, list(results), [leaves[place] for place in call.places])
        arrays = [tensor.detach().array for tensor in (*results, *gradients)]
        assert {place for array in arrays for place in array.devices()} <= {device}
    values = [np.asarray(array) for array in arrays]
    return values[: len(results)], values[len(results) :]


def compare(call: Call, dtype: str) -> None:
    expected, found = (run_on(device, call, dtype) for device in (REFERENCE, ACCELERATOR))
    for mine, its in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
        assert mine.dtype == its.dtype
        if call.name.startswith(SIGNS_ARE_FREE):
            mine, its = np.abs(mine), np.abs(its)
        scale = max(1.0, float(np.max(np.abs(its[np.isfinite(its)]), initial=0.0)))
        np.testing.assert_allclose(mine, its, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * scale)


def asks_for_64_bits(call: Call) -> bool:
    return any(isinstance(value, np.dtype) for value in (*call.sample.args, *call.sample.kwargs.values()))


@pytest.mark.matrix(4)
@pytest.mark.parametrize(
    "name", cut_slice(sorted(seed.draw_cases(sorted(OPS), DRAWN, "ops of accelerators")))
)
def test_an_op_computes_what_it_computes_on_a_cpu(name: str) -> None:
    limit_compiled_programs(name)
    for number, _ in seed.draw_cases(list(enumerate(find_samples(OPS[name]))), 1, f"{name} of accelerators"):
        with jax.enable_x64(True):
            compare(find_call(name, number), "float64")
        call = find_call(name, number)
        if not asks_for_64_bits(call) and not name.startswith(UNSTABLE_IN_SINGLE):
            with jax.enable_x64(False), jax.default_matmul_precision("highest"):
                compare(call, "float32")
