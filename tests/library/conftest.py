"""Every test of this floor may register what it likes: it is gone afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from .sample_kernels import KINDS


@pytest.fixture(autouse=True)
def scratch_registry(forget_ops: None) -> None:
    """Restores the registry after each test."""


@pytest.fixture(params=KINDS)
def hint(request: pytest.FixtureRequest) -> Any:
    """What the tensors of a kernel are annotated with, of every kind."""
    return KINDS[request.param]


@pytest.fixture(params=["compiled", "eager"])
def jax_hint(request: pytest.FixtureRequest) -> Any:
    """The same of the kinds that run as JAX."""
    return KINDS[request.param]


@pytest.fixture
def told_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning about overriding, which comes once per process, has come."""
    monkeypatch.setattr("oplib.library.registration.enrolment._has_warned", True)
