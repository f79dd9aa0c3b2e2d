"""The arguments of regions under a checkpoint."""

from __future__ import annotations

import pytest

import oplib


@pytest.fixture
def x():
    return oplib.tensor([0.5, 1.0], requires_grad=True)


@pytest.fixture
def w():
    return oplib.tensor([2.0, 3.0], requires_grad=True)
