"""No built-in op is quadratic where torch's is not, in the number of items of any axis.

XLA counts the flops and bytes of an op before it compiles it, at one size of an axis and at ten times that
size. It counts the body of a loop once, and no host code: functions of the host are timed. A seeded run draws
ops; ``OPLIB_OPS_SAMPLES=all`` takes everything.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import OplibError
from tests import seed
from tests.builtin.grid.calls import OPS, find_call
from tests.builtin.samples.drawing import list_arrays
from tests.builtin.samples.samples import find_samples

DRAWN = 20  # ops of a run
SAMPLES = 2  # of each op, the first ones
FEW, MANY = 8, 80  # times the items of an axis of the sample
ALARM = 3.0  # times the growth of operands and results; a Fourier transform reaches 1.8, a square 10
UNSCALED = {
    "affine_grid": "the sizes of the result are options, and the batch of the samples is one of them",
    "broadcast_to": "the sizes of the result are options",
    "stored": "the sizes of the result are options",
}
SQUARE = {
    "flash_attention": "each query meets each key, as in torch",
    "index_fill": "the axis of the sample is as long as the index: each index fills a row",
    "linalg_matrix_exp": "products of matrices",
    "linalg_matrix_power": "products of matrices",
    "multilabel_margin_loss": "each label meets each class, as in torch",
}
COSTED = sorted(OPS.keys() - UNSCALED.keys() - SQUARE.keys())


def list_sizes(name: str, number: int) -> list[int]:
    """Returns the sizes of the axes of a sample that can grow; equal ones grow together."""
    return sorted({
        size
        for array in list_arrays(find_samples(OPS[name])[number])
        for size in array.shape
        if size > 1
    })  # fmt: skip


def count_cost(name: str, number: int, size: int, times: int, *, compiles: bool = False) -> np.ndarray:
    """Returns the numbers of items of operands and results, of flops and of bytes."""
    call = find_call(name, number)
    shapes = [tuple(own * times if own == size else own for own in array.shape) for array in call.arrays]
    arrays = [
        jax.ShapeDtypeStruct(*both) for both in zip(shapes, (a.dtype for a in call.arrays), strict=True)
    ]
    lowered = jax.jit(call.run).lower(*arrays)
    cost: Any = (lowered.compile() if compiles else lowered).cost_analysis() or {}
    items = sum(math.prod(each.shape) for each in [*arrays, *jax.tree.leaves(lowered.out_info)])
    return np.array([items, *(max(cost.get(each, 0.0), items) for each in ("flops", "bytes accessed"))])


def find_growth(name: str, number: int, size: int) -> np.ndarray:
    few, many = (count_cost(name, number, size, times) for times in (FEW, MANY))
    growth = many / few
    if max(growth) >= ALARM * growth[0]:  # XLA makes trees of scans, which count as squares before
        few, many = (count_cost(name, number, size, times, compiles=True) for times in (FEW, MANY))
    return many / few


def list_growths(name: str) -> list[np.ndarray]:
    """Returns the growth along each axis that can grow without another axis or option."""
    growths: list[np.ndarray] = []
    with jax.enable_x64(True):
        for number in range(min(SAMPLES, len(find_samples(OPS[name])))):
            for size in list_sizes(name, number):
                with contextlib.suppress(OplibError, TypeError, ValueError):
                    growths.append(find_growth(name, number, size))
    return growths


@pytest.mark.slow
@pytest.mark.parametrize("name", seed.draw_cases(COSTED, DRAWN, "growth"))
def test_the_flops_and_bytes_of_an_op_grow_with_its_items(name: str) -> None:
    growths = list_growths(name)
    for growth in growths:
        assert max(growth) < ALARM * growth[0], f"items, flops and bytes grow {growth} times"
    assert growths, "no axis of a sample can grow: add a sample, or a reason to UNSCALED"


@pytest.mark.slow
@pytest.mark.parametrize("name", SQUARE)
def test_what_is_called_square_is(name: str) -> None:
    assert max(max(growth) / growth[0] for growth in list_growths(name)) >= ALARM


# On the host ------------------------------------------------------------------------------------------------


def draw(count: int) -> Any:
    return oplib.tensor(np.random.default_rng(3).integers(0, count, count).astype(np.int32))


ON_HOST: dict[str, Callable[[Any], Any]] = {
    "bincount": oplib.bincount,
    "isin": lambda x: oplib.isin(x, x.flip(0)),
    "masked_select": lambda x: oplib.masked_select(x, x > 9),
    "nonzero": oplib.nonzero,
    "repeat_interleave": lambda x: oplib.repeat_interleave(x, x % 3),
    "searchsorted": lambda x: oplib.searchsorted(x.sort().values, x),
    "unique": lambda x: oplib.unique(x, return_inverse=True, return_counts=True),
    "unique_consecutive": oplib.unique_consecutive,
    "unique of slices": lambda x: oplib.unique(x.view(-1, 2), dim=0),
    "unique_consecutive of slices": lambda x: oplib.unique_consecutive(x.view(-1, 2), dim=0),
}


def time_call(function: Callable[[Any], Any], operand: Any) -> float:
    """Returns the processor time of the fastest of a few calls."""

    def run() -> float:
        start = time.process_time()
        found: Sequence[Any] = results if isinstance(results := function(operand), tuple) else [results]
        jax.block_until_ready([each.array for each in found])
        return time.process_time() - start

    return min(run() for _ in range(4))


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_HOST)
def test_the_time_of_the_host_grows_with_its_items(name: str) -> None:
    few, many = (time_call(ON_HOST[name], draw(count)) for count in (5_000, 50_000))
    assert many < 10 * ALARM * few
