"""Fixtures of all tests, and eight CPU devices. The plugin checks that a test leaves no state behind."""

from __future__ import annotations

import gc
import os
import warnings

from tests.xla_flags import add_flags

# Before JAX is imported.
os.environ["XLA_FLAGS"] = add_flags(os.environ.get("XLA_FLAGS", ""))
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from collections.abc import Generator, Iterator
from importlib.util import find_spec
from typing import Any

import hypothesis
import jax
import pytest

from oplib.config import config
from oplib.library.registration.registry import registry
from tests import compiled_runs, counts, memory
from tests.documents import ROOT
from tests.seed import describe_seed, mark_undrawn, seed_programs, select_share

# A first call compiles, so the duration of an example, or of drawing it, says nothing.
hypothesis.settings.register_profile(
    "oplib", deadline=None, max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("oplib")


# What one worker has compiled the other one loads, and the next run: a test then takes half the time.
config.compilation_cache = ROOT / ".pytest_cache" / "jax"

config.fast_path = os.environ.get("OPLIB_FAST_PATH") != "0"
compiled_runs.switch_on()


@pytest.fixture
def with_64_bits() -> Iterator[None]:
    """With 64 bits oplib's dtypes are those of torch."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def without_warnings() -> Iterator[None]:
    """Ignores the warnings of a program, whose texts differ between torch and oplib."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def small_heap() -> None:
    """Hides from the garbage collector what other tests have made since the last time."""
    memory.hide_older()


@pytest.fixture
def collector_off(small_heap: None) -> Iterator[None]:
    """Switches off the garbage collector, so that objects are freed by reference count alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def forget_ops() -> Iterator[None]:
    """Lets a test register permanent ops, such as those of ``custom_op``, and removes them."""
    before = registry.save()
    yield
    registry.restore(before)


def pytest_configure(config: pytest.Config) -> None:
    """Notes whether this process is a worker."""
    memory.configure(config)


def pytest_report_header() -> list[str]:
    """Prints the seed, and which tests are left out."""
    left_out = [] if find_spec("torch") else ["tests/parity is left out: there is no torch to compare with"]
    return [describe_seed(), *left_out]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Draws the cells of matrices, seeds the tests of random programs, and leaves the tests of this run."""
    mark_undrawn(items)
    result = yield  # markers and options select
    seed_programs(items)
    compiled_runs.select(items)
    select_share(config, items)
    return result


def pytest_collection_finish() -> None:
    """Hides the collected tests from the garbage collector."""
    memory.hide_older()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Drops what was compiled after a test, where the process holds much."""
    result = yield
    memory.drop_if_large(item, nextitem)
    return result


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Lets the report of a test carry how its backward passes ran, and what it counted."""
    compiled_runs.hand_over(item)
    counts.hand_over(item)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds up what the reports carry, from workers too."""
    compiled_runs.collect(report)
    counts.collect(report)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Collects the peak memory of a worker that has ended."""
    memory.collect(getattr(node, "workeroutput", {}))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the wrapper that prints the summary
def pytest_sessionfinish() -> Generator[None, object, object]:
    """Hands over the peak memory of a worker, and fails a run in which one has passed the bound."""
    memory.hand_over()
    result = yield
    memory.judge()
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the seed again after a failure, below the summary."""
    compiled_runs.show(terminalreporter)
    counts.show(terminalreporter)
    memory.show(terminalreporter)
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        terminalreporter.write_line(describe_seed())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test whose mark asks for what is not here: the fast path, a CPU by default, or n devices."""
    if item.get_closest_marker("fast_path") and not config.fast_path:
        pytest.skip("tests the fast path, which OPLIB_FAST_PATH=0 turns off")
    if item.get_closest_marker("cpu") and jax.default_backend() != "cpu":
        pytest.skip(f"says what holds where tensors lie on a CPU, and they lie on a {jax.default_backend()}")
    for mark in item.iter_markers("devices"):
        if jax.device_count() < mark.args[0]:
            pytest.skip(f"needs {mark.args[0]} devices, found {jax.device_count()}")
