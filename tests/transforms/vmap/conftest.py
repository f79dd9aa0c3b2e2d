"""The two arguments that tests of ``vmap`` in 64 bits share."""

from __future__ import annotations

import pytest

import oplib

from .rows import W, X


@pytest.fixture
def x(with_64_bits):
    return oplib.tensor(X, requires_grad=True)


@pytest.fixture
def w(with_64_bits):
    return oplib.tensor(W, requires_grad=True)
