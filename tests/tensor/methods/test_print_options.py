"""``set_printoptions``: torch's options, and what they do to the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentTypeError, ArgumentValueError

OPTIONS: list[dict[str, Any]] = [
    {"precision": 2},
    {"precision": 0},
    {"precision": 9, "linewidth": 40},
    {"threshold": 5},
    {"threshold": 5, "edgeitems": 1},
    {"threshold": 0, "edgeitems": 0},
    {"linewidth": 20},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "short", "precision": 7},
    {"sci_mode": True},
    {"sci_mode": False},
    {"sci_mode": True, "precision": 1},
]
VALUES: list[Any] = [
    1.25,
    [1.0, 2.0, -30.0],
    [0.1, 1e-9, 2e5, float("nan"), -float("inf")],
    [0.0, float("inf")],
    [[1.5 + 2j, 1e-7j]],
    [[1, 2, 3], [40, 5, -6]],
    np.linspace(-1, 1, 40, dtype=np.float32).reshape(2, 4, 5),
    np.arange(1200, dtype=np.float32),
    np.arange(24, dtype=np.float32).reshape(8, 3),
]


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    yield
    oplib.set_printoptions(profile="default")


@pytest.fixture
def torch() -> Iterator[Any]:
    torch = pytest.importorskip("torch")
    yield torch
    torch.set_printoptions(profile="default")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_text_is_torchs_under_the_same_options(options: dict[str, Any], torch: Any) -> None:
    oplib.set_printoptions(**options)
    torch.set_printoptions(**options)
    assert [repr(oplib.tensor(one)) for one in VALUES] == [repr(torch.tensor(one)) for one in VALUES]


def test_what_is_not_given_keeps_its_value_but_for_the_exponent() -> None:
    oplib.set_printoptions(precision=1, sci_mode=True)
    oplib.set_printoptions(edgeitems=1)
    assert repr(oplib.tensor([1.25])) == "tensor([1.2])"


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"precision": "2"}, ArgumentTypeError, "precision is an integer. Got '2'"),
        ({"edgeitems": 1.5}, ArgumentTypeError, "edgeitems is an integer"),
        ({"linewidth": True}, ArgumentTypeError, "linewidth is an integer"),
        ({"threshold": float("nan")}, ArgumentValueError, "threshold must not be negative"),
        ({"precision": -1}, ArgumentValueError, "precision must not be negative. Got -1"),
        ({"profile": "tiny"}, ArgumentValueError, "no such profile. Got 'tiny'"),
        ({"sci_mode": 1}, ArgumentTypeError, "sci_mode is a bool or None"),
    ],
)
def test_bad_options_are_refused_and_change_nothing(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        oplib.set_printoptions(**options)
    assert repr(oplib.tensor([1.25])) == "tensor([1.2500])"
