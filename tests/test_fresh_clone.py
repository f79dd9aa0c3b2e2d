"""The commands that ``tests/fresh_clone.py`` tries are those that a reader is told to run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.fresh_clone import COMMANDS, LEFT_OUT, list_installations, list_told, list_trials, run_alone


def test_each_command_of_the_pages_and_the_makefile_is_tried_or_left_out_with_a_reason():
    assert sorted(list_told()) == sorted([*COMMANDS, *LEFT_OUT])


def test_each_installation_of_the_pages_is_tried():
    tried = [name.removeprefix("pip install ").partition(" (") for name in list_trials() if "pip" in name]
    assert {what for what, _, python in tried if python == "lowest Python)"} == list_installations()


def test_each_file_that_a_command_names_is_there():
    named = re.findall(r"tests/\S+?\.py|\btest_\w+\.py", " ".join(COMMANDS.values()))
    assert len(named) >= 3
    assert [name for name in named if not list((ROOT / "tests").rglob(Path(name).name))] == []


def test_a_command_that_fails_in_the_clone_ends_the_run(tmp_path):
    with pytest.raises(SystemExit, match="failed with 1 in a fresh clone"):
        run_alone("true; false", tmp_path)


def test_a_command_does_not_see_the_settings_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("OPLIB_TEST_SEED", "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    run_alone("env > seen", tmp_path)
    seen = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert "PATH" in seen
    assert seen.isdisjoint({"OPLIB_TEST_SEED", "JAX_PLATFORMS"})


def test_a_command_of_another_name_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fresh_clone", "make nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no 'make nothing'; there are make help, make demo" in done.stderr
