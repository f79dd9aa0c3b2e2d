"""The pytest plugin of oplib: fixtures, a mark, and a check that a test leaves no state behind.

pytest loads it wherever oplib is installed, so it imports nothing before a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the command line and of the settings file."""
    group = parser.getgroup("oplib")
    group.addoption("--oplib-seed", type=int, default=0, help="the seed that the fixture 'seed' gives (0)")
    parser.addini("oplib_devices", "the number of CPU devices that JAX shows to tests", default="")
    parser.addini(
        "oplib_leftovers", "check after each test that no state is left", type="bool", default=False
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark, and sets the number of devices before JAX is imported."""
    config.addinivalue_line(
        "markers", "oplib_slow: a slow check of an op; `-m 'not oplib_slow'` leaves it out"
    )
    count = config.getini("oplib_devices")
    if count and "--xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={int(count)}"
        os.environ["XLA_FLAGS"] = flags.strip()


@pytest.fixture
def x64() -> Iterator[None]:
    """Runs the test with JAX's 64 bits, so that oplib's default dtypes are those of torch."""
    import jax

    with jax.enable_x64(True):
        yield


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> Iterator[int]:
    """Seeds oplib's default Generator; the test gets the seed, and the Generator its state back."""
    import oplib

    value: int = request.config.getoption("--oplib-seed") or 0
    before = oplib.random.get_rng_state()
    oplib.manual_seed(value)
    yield value
    oplib.random.set_rng_state(before)


@pytest.fixture
def devices() -> Callable[[int], list[Any]]:
    """Gives ``devices(n)``: the first n devices of JAX. The test is skipped where there are fewer."""
    import jax

    def take(count: int) -> list[Any]:
        if jax.device_count() < count:
            pytest.skip(
                f"needs {count} devices, found {jax.device_count()}; `oplib_devices = {count}` in the "
                "settings of pytest makes JAX show that many on a CPU"
            )
        return list(jax.devices()[:count])

    return take


@pytest.fixture
def no_leftovers() -> Iterator[None]:
    """Fails a test that changes modes, settings or registered ops of oplib, or settings of JAX."""
    from oplib.testing.leftovers import World

    before = World()
    yield
    if changes := before.find_changes(World()):
        before.restore()
        pytest.fail("the test left state behind:\n  " + "\n  ".join(changes), pytrace=False)


@pytest.fixture(autouse=True)
def _watch_leftovers(request: pytest.FixtureRequest) -> None:
    if request.config.getini("oplib_leftovers"):
        request.getfixturevalue("no_leftovers")
