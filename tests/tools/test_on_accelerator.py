"""The runner of tests and benchmarks on accelerators."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.__main__ import GROUPS
from tools import on_accelerator
from tools.on_accelerator import ROOT, Slice, find_device, list_benchmarks, list_tests, run_slice


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.on_accelerator", *arguments]
    environment = {**os.environ, "OPLIB_TEST_SHARE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_each_slice_names_files_or_groups_that_exist() -> None:
    for given in list_tests().values():
        paths = [text for text in given.command if text.startswith("tests/")]
        assert paths
        assert all((ROOT / path).exists() for path in paths)
    groups = [given.command[3] for given in list_benchmarks("machine").values()]
    assert set(groups) <= set(GROUPS)


def test_the_slices_of_the_ops_take_each_part_once() -> None:
    parts = [given.environment["OPLIB_SLICE"] for name, given in list_tests().items() if "ops" in name]
    assert parts == [f"{part}/{len(parts)}" for part in range(1, len(parts) + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["tests", "benchmarks"])
def test_a_platform_that_is_not_there_is_skipped_with_the_reason(what: str) -> None:
    if not find_device("tpu")[1]:
        pytest.skip("a TPU is here")
    done = run(what, "--platform", "tpu")
    assert done.returncode == 0, done.stderr
    assert f"{what} on an accelerator: skipped. JAX has no tpu here: " in done.stdout


@pytest.mark.slow
def test_a_slice_runs_on_the_platform_that_is_asked_for() -> None:
    done = run("tests", "offload", "--platform", "cpu", "-k", "host")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert done.stdout.rstrip().endswith("passed")


@pytest.mark.slow
def test_an_unknown_slice_is_refused() -> None:
    done = run("tests", "opps")
    assert done.returncode == 2
    assert "there is no slice opps; there are attention" in done.stderr


def test_a_slice_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_accelerator, "LIMIT", 0.2)
    outcome, seconds = run_slice(Slice(("-c", "import time; time.sleep(20)")), "cpu", ())
    assert outcome == "stopped after 0.2 seconds"
    assert seconds < 10
