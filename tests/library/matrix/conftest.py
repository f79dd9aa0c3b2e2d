"""The marked ops, registered once for the whole folder, with JAX's own checks on."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

from oplib.library.registration.registry import registry
from tests.library.matrix.marked import FACTORS, Marked, make_marked


@pytest.fixture(scope="package")
def marked_ops() -> Iterator[dict[str, Marked]]:
    """Returns the marked ops by their rules; they are removed after the folder."""
    before = registry.save()
    yield {rules: make_marked(rules) for rules in FACTORS}
    registry.restore(before)


@pytest.fixture(params=FACTORS)
def marked(request: pytest.FixtureRequest, marked_ops: dict[str, Marked]) -> Marked:
    """Returns the marked ops one after the other."""
    return marked_ops[request.param]


@pytest.fixture(autouse=True)
def check_everything() -> Iterator[None]:
    """Makes JAX check every jaxpr of a cell, as under ``JAX_ENABLE_CHECKS=1``."""
    with jax.enable_checks(True):
        yield
