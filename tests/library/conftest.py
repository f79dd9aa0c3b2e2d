"""Every test of this floor may register what it likes: it is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from oplib.library.registration.registry import registry

from .sample_kernels import KINDS


@pytest.fixture(autouse=True)
def scratch_registry() -> Iterator[None]:
    """Restores the registry after the test."""
    saved = registry.save()
    yield
    registry.restore(saved)


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
