"""The forms in which torch's functions are called: what each gives here and there, or that both refuse.

A form is a line of Python, run once with torch as ``lib`` and once with oplib. Numbers, shapes, dtypes (but
for the width of integers) and gradients are compared; of errors, that the builtin class is the same.

A run takes some of them, drawn by ``OPLIB_TEST_SEED``; ``OPLIB_OPS_SAMPLES=all`` takes them all.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import oplib
from tests.seed import draw_cases

from .forms import FORMS, draw_data, name_values

torch = pytest.importorskip("torch")

DATA = draw_data()
KINDS = (IndexError, NotImplementedError, TypeError, ValueError, RuntimeError)


DRAWN = draw_cases(FORMS, len(FORMS) // 8, "forms")


def run(lib: Any, form: str) -> tuple[list[Any], list[Any], type[Exception] | None]:
    """Returns results, gradients, and the builtin class of what was raised."""
    leaves = {
        name: lib.tensor(data.tolist(), requires_grad=True)
        for name, data in DATA.items()
        if re.search(rf"\b{name}\b", form)
    }
    names = name_values(lib, {name: leaf * 1 for name, leaf in leaves.items()})
    try:
        found = eval(form, names)
    except Exception as error:  # noqa: BLE001  what is raised is compared
        return [], [], next((kind for kind in KINDS if isinstance(error, kind)), type(error))
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    tensors = [one for one in results if hasattr(one, "requires_grad")]
    total = sum((one.abs() * one.abs() + one.real).sum() for one in tensors if one.requires_grad)
    if hasattr(total, "backward"):
        total.backward()
    gradients = [lib.zeros(leaf.shape) if leaf.grad is None else leaf.grad for leaf in leaves.values()]
    return results, gradients, None


def to_plain(value: Any) -> Any:
    if not hasattr(value, "detach"):
        return value
    return np.asarray(value.detach().tolist()).reshape(tuple(value.shape)), str(value.dtype).rpartition(".")[
        2
    ]


def assert_alike(mine: Any, other: Any) -> None:
    mine, other = to_plain(mine), to_plain(other)
    if not isinstance(other, tuple) or not isinstance(other[0], np.ndarray):
        assert mine == other
        return
    assert mine[0].shape == other[0].shape
    assert mine[1] == other[1].replace("int64", "int32")
    np.testing.assert_allclose(mine[0], other[0], rtol=2e-4, atol=2e-5)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("form", DRAWN)
def test_a_form_gives_what_it_gives_on_torch_or_is_refused_by_the_same_class_of_error(form: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = run(torch, form), run(oplib, form)
    assert ours[2] == theirs[2]
    for mine, other in zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True):
        assert_alike(mine, other)
