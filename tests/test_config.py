"""Settings of the process: the folder of compiled code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

import oplib
from oplib.config import config
from oplib.errors import ArgumentTypeError, ArgumentValueError

FOLDER = "jax_compilation_cache_dir"
LIMITS = ("jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes")

COUNT_COMPILATIONS = """
import sys
import jax.monitoring
import oplib
names = []
jax.monitoring.register_event_listener(lambda name, **_: names.append(name.rpartition("/")[2]))
{before}
oplib.config.compilation_cache = sys.argv[1]
w = oplib.full((3, 3), 0.5, requires_grad=True)
for _ in range(2):
    oplib.tanh(w @ w).sum().backward()
print(names.count("cache_misses"), names.count("cache_hits"), w.grad.tolist())
"""


@pytest.fixture(autouse=True)
def no_folder() -> Iterator[None]:
    before, config.compilation_cache = config.compilation_cache, None
    yield
    config.compilation_cache = before


def read_limits() -> tuple[Any, ...]:
    return tuple(getattr(jax.config, name) for name in LIMITS)


def count_compilations(folder: Path, *, before: str = "") -> tuple[int, int, str]:
    """Runs a step in a process of its own; returns compilations, pieces of code found, and a gradient."""
    code = COUNT_COMPILATIONS.format(before=before)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    misses, hits, gradient = done.stdout.strip().split(" ", 2)
    return int(misses), int(hits), gradient


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_computes_the_same(tmp_path: Path) -> None:
    first = count_compilations(tmp_path)
    second = count_compilations(tmp_path)
    assert first[0] > 5
    assert second[0] == 0
    assert second[1] >= first[0]
    assert second[2] == first[2]


@pytest.mark.slow
def test_the_folder_is_used_if_code_was_compiled_before_it_was_set(tmp_path: Path) -> None:
    count_compilations(tmp_path)
    misses, hits, _ = count_compilations(tmp_path, before="oplib.ones(7).cos()")
    assert misses == 0
    assert hits > 5


def test_none_is_the_default_and_puts_the_limits_of_jax_back(tmp_path: Path) -> None:
    before = read_limits()
    assert config.compilation_cache is None
    config.compilation_cache = tmp_path
    config.compilation_cache = tmp_path / "other"
    assert config.compilation_cache == jax.config.values[FOLDER] == str(tmp_path / "other")
    assert read_limits() == (0.0, -1)
    config.compilation_cache = None
    assert config.compilation_cache is None
    assert jax.config.values[FOLDER] is None
    assert read_limits() == before


@pytest.mark.parametrize("wrong", [3, True, b"folder", ["folder"]])
def test_what_is_no_path_is_refused_and_changes_nothing(wrong: Any) -> None:
    before = read_limits()
    with pytest.raises(
        ArgumentTypeError, match=r"config\.compilation_cache: not a path\. Got \w+\. Give the"
    ):
        oplib.config.compilation_cache = wrong
    assert config.compilation_cache is None
    assert read_limits() == before


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), True, "600", None])
def test_a_timeout_that_is_no_number_of_seconds_is_refused_and_not_stored(wrong: Any) -> None:
    text = r"config\.process_timeout: not a number of seconds\. Got .*\. Give one above 0, at most \d+\."
    with pytest.raises(ArgumentValueError, match=text):
        oplib.config.process_timeout = wrong
    assert oplib.config.process_timeout == 600


@pytest.mark.parametrize("name", ["compile_kernels", "compiled_autograd", "fast_path", "stage_host_scalars"])
@pytest.mark.parametrize("value", ["False", None, 0, oplib.ones(3)])
def test_a_switch_that_is_no_bool_is_refused_and_not_stored(name, value):
    before = getattr(config, name)
    with pytest.raises(ArgumentTypeError, match=f"config.{name}: not a bool"):
        setattr(config, name, value)
    assert getattr(config, name) is before


def test_the_text_of_the_settings_has_every_one():
    text = repr(oplib.config)
    names = [name for name in type(oplib.config).__slots__ if not name.startswith("_")]
    assert all(f"{name}=" in text for name in names if name != "uses_fast_path")
    assert "0x" not in text
