"""The arguments of the ops under check."""

from __future__ import annotations

import pytest

import oplib


@pytest.fixture
def x() -> oplib.Tensor:
    return oplib.tensor([1.0, 2.0], requires_grad=True)
