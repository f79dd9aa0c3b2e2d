"""Fixtures of this floor: everything that a test registers is removed afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from .sample_kernels import KINDS


@pytest.fixture(autouse=True)
def scratch_registry(forget_ops: None) -> None:
    """Restores the registry after each test."""


@pytest.fixture(params=KINDS)
def hint(request: pytest.FixtureRequest) -> Any:
    """Returns the annotation of the tensors of a kernel, for every kind."""
    return KINDS[request.param]


@pytest.fixture(params=["compiled", "eager"])
def jax_hint(request: pytest.FixtureRequest) -> Any:
    """Returns the annotation for the kinds that run as JAX."""
    return KINDS[request.param]


@pytest.fixture
def told_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks the warning about overriding, which is issued once per process, as issued."""
    monkeypatch.setattr("oplib.library.registration.library._has_warned", True)
