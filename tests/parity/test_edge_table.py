"""Values and gradients of 300 functions at the edges of each float dtype, beside torch.

The points are zeros, ones, infinities, nan, halves between integers, the largest and the smallest normal
numbers, those whose squares are too large or too small, and ties. torch flushes subnormal results to zero
here, as XLA does on a CPU. Where torch has few digits, mpmath decides.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import oplib
from oplib.errors import UnsupportedDtypeError
from tests.seed import draw_cases

torch = pytest.importorskip("torch")
mpmath = pytest.importorskip("mpmath")

from .edge_table import EXCUSED, ITEMS, PAIRS, ROWS, trust  # noqa: E402  it needs mpmath

pytestmark = pytest.mark.usefixtures("without_warnings")
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
TOLERANCE = {"float32": 5e-5, "float64": 1e-9, "float16": 4e-3, "bfloat16": 3e-2}
INF, NAN = float("inf"), float("nan")


def find_limits(dtype: str) -> tuple[float, float, float]:
    """Returns the largest number, the smallest normal one, and the distance of 1 to the next."""
    info: Any = ml_dtypes.finfo(DTYPES[dtype])
    return float(info.max), float(info.tiny), float(info.eps)


def list_points(dtype: str, kind: str) -> list[list[Any]]:
    """Returns what x and y are: vectors of points, of pairs of points, or rows of three items."""
    big, small, eps = find_limits(dtype)
    far, near = 4 * float(np.sqrt(big)), float(np.sqrt(small)) / 4
    few = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        INF,
        -INF,
        NAN,
        big,
        -big,
        small,
        -small,
        far,
        -far,
        near,
        -near,
        0.5,
        2.5,
        -3.0,
    ]
    round_numbers = (DTYPES[dtype](one) for one in few)
    few = [float(one) for one in round_numbers]
    if kind == "items":
        more = [-0.5, 1.5, -1.5, 2.0, -2.5, 3.0, 10.0, -10.0, eps, 1 - eps / 2, 1 + eps]
        return [few + more]
    if kind == "pairs":
        return [list(one) for one in zip(*itertools.product(few, few), strict=True)]
    some = [0.0, -0.0, 1.0, -2.0, INF, -INF, NAN, big, small, far, near]
    rows = [[float(DTYPES[dtype](one)) for one in row] for row in itertools.product(some, some, [1.0])]
    return [[*rows, [1.0, 1.0, 1.0], [2.0, 1.0, 2.0], [1.0, 2.0, 2.0], [-1.0, -1.0, 0.0]]]


def first(result: Any) -> Any:
    return result if hasattr(result, "shape") else result[0]


def compute(lib: Any, text: str, points: list[list[Any]], dtype: str) -> dict[str, np.ndarray]:
    """Returns the value and the gradients of its sum, those that there are."""
    leaves = [lib.tensor(one, dtype=getattr(lib, dtype), requires_grad=True) for one in points]
    names = {"lib": lib, "F": lib.nn.functional, "x": leaves[0], "y": leaves[-1], "first": first}
    value = eval(text, names)
    found = {"value": value.detach()}
    if value.requires_grad:
        grads = lib.autograd.grad(value, leaves, lib.ones_like(value), allow_unused=True)
        found |= {kind: one for kind, one in zip(("dx", "dy"), grads, strict=False) if one is not None}
    wide = {"float64": lib.float64}.get(dtype, lib.float32)
    return {
        kind: np.asarray(
            one.resolve_conj().to(wide).numpy() if lib is torch else one.to(wide).numpy()
        ).astype(float)
        for kind, one in found.items()
    }


def compute_beside(text: str, points: list[list[Any]], dtype: str) -> dict[str, np.ndarray]:
    """Returns torch's results; those of halves are computed in single and rounded once, as in oplib."""
    is_half = dtype in ("float16", "bfloat16")
    torch.set_flush_denormal(True)
    try:
        found = compute(torch, text, points, "float32" if is_half else dtype)
    finally:
        torch.set_flush_denormal(False)
    with np.errstate(over="ignore"):
        return (
            {kind: one.astype(DTYPES[dtype]).astype(float) for kind, one in found.items()}
            if is_half
            else found
        )


def find_wrong(name: str, text: str, points: list[list[Any]], dtype: str) -> Iterator[str]:
    big, small, eps = find_limits(dtype)
    try:
        ours = compute(oplib, text, points, dtype)
    except UnsupportedDtypeError:  # some special functions take no halves, in torch neither
        assert dtype in ("float16", "bfloat16")
        return
    theirs = compute_beside(text, points, dtype)
    arrays = dict(zip("xy", map(np.asarray, points), strict=False))
    for kind, expected in theirs.items():
        if kind not in ours:
            continue
        mine = ours[kind]
        assert mine.shape == expected.shape, (name, kind)
        least = 4 * small if kind == "value" and arrays["x"].ndim == 1 else 4 * max(eps, small)
        if arrays["x"].ndim == 1 and dtype in ("float32", "float64"):
            least = 4 * small
        with np.errstate(all="ignore"):
            close = np.abs(mine - expected) <= TOLERANCE[dtype] * np.abs(expected) + least
            right = (mine == expected) | close | (np.isnan(mine) & np.isnan(expected))
            if (name, kind) in EXCUSED:
                excused = np.asarray(EXCUSED[name, kind][0](**arrays, big=big, small=small))
                right |= excused.reshape(excused.shape + (1,) * (right.ndim - excused.ndim))
        decide = trust().get(f"{name} {kind}")
        for place in map(tuple, np.argwhere(~right)):
            at = arrays["x"][place[: arrays["x"].ndim]]
            if decide is None or not np.isfinite(at):
                beside = {
                    one: array[place[: array.ndim - (arrays["x"].ndim - 1)]] for one, array in arrays.items()
                }
                yield f"{name} {kind} at {beside}: {mine[place]!r}, torch {expected[place]!r}"
                continue
            with mpmath.workdps(120):
                exact = float(decide(mpmath.mpf(float(at))))
            if not (
                abs(mine[place] - exact) <= TOLERANCE[dtype] * abs(exact) + least or mine[place] == exact
            ):
                yield f"{name} {kind} at {at}: {mine[place]!r}, exactly {exact!r}, torch {expected[place]!r}"


TABLES = {"items": ITEMS, "pairs": PAIRS, "rows": ROWS}
NAMES = [(kind, name) for kind, table in TABLES.items() for name in table]


def check(kind: str, name: str, dtype: str) -> list[str]:
    with jax.enable_x64(dtype == "float64"):
        return list(find_wrong(name, TABLES[kind][name], list_points(dtype, kind), dtype))


@pytest.mark.parametrize("case", draw_cases(NAMES, 16, "edges of floats"), ids=str)
def test_a_function_is_torchs_at_the_edges_of_floats(case: tuple[str, str]) -> None:
    assert check(*case, "float32") == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", TABLES)
def test_all_functions_are_torchs_at_the_edges_of_every_dtype(kind: str, dtype: str) -> None:
    if dtype in ("float16", "bfloat16") and kind != "items":
        pytest.skip("halves are computed in single: one table shows the rounding")
    assert [wrong for name in TABLES[kind] for wrong in check(kind, name, dtype)] == []


def test_the_table_has_300_functions() -> None:
    assert len(NAMES) >= 300
    assert {name for name, _ in EXCUSED} <= {name for _, name in NAMES}
