"""A clean state of compiled autograd, and a comparison of compiled and eager backward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import oplib
from oplib.autograd import compiled_autograd
from oplib.config import config


@pytest.fixture(autouse=True)
def new_state() -> Iterator[None]:
    """Starts without programs and counts."""
    before = config.compiled_autograd
    compiled_autograd.reset()
    compiled_autograd.counters.clear()
    yield
    compiled_autograd.reset()
    config.compiled_autograd = before


@pytest.fixture
def counts() -> Callable[[str], int]:
    """Reads a counter: captures, compiles or eager."""
    return lambda name: compiled_autograd.counters["compiled_autograd"][name]


@pytest.fixture
def leaves() -> Callable[[], list[oplib.Tensor]]:
    """Makes the same leaves at each call."""

    def make() -> list[oplib.Tensor]:
        generator = np.random.default_rng(0)
        arrays = [generator.normal(size=(3, 3)).astype(np.float32) for _ in range(3)]
        return [oplib.tensor(array, requires_grad=True) for array in arrays]

    return make


@pytest.fixture
def agree(leaves) -> Callable[[Callable[..., Any]], None]:
    """Runs a function of three leaves eagerly and twice compiled, and compares what it returns and ``grad``s.

    The function may return numbers, arrays and lists of names; they must be equal or close.
    """

    def compare(function: Callable[..., Any]) -> None:
        eager = leaves()
        expected = [function(*eager), *[one.grad for one in eager]]
        for _ in range(2):
            compiled = leaves()
            with compiled_autograd.enable():
                found = [function(*compiled), *[one.grad for one in compiled]]
            assert_same(found, expected)

    return compare


def assert_same(found: Any, expected: Any) -> None:
    """Compares nested results."""
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, oplib.Tensor):
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    else:
        assert found == expected
