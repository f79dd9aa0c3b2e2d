"""Every test of this floor may register what it likes: it is gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oplib.library.registration.registry import registry


@pytest.fixture(autouse=True)
def scratch_registry() -> Iterator[None]:
    """Restores the registry after the test."""
    saved = registry.save()
    yield
    registry.restore(saved)
