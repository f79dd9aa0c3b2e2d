"""The memory of test workers, and how many of them a machine has."""

import os
import subprocess
import sys
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from tests import memory, workers
from tests.documents import ROOT


def test_programs_of_jax_are_dropped_where_a_worker_holds_much(monkeypatch, request):
    monkeypatch.setattr(memory, "DROP_ABOVE", 0.0)
    monkeypatch.setattr(memory, "_floor", -memory.GROWTH)
    traces = []
    double = jax.jit(lambda x: traces.append(1) or 2 * x)
    double(jnp.ones(3))
    double(jnp.ones(3))
    assert len(traces) == 1
    memory.drop_if_large(request.node, None)
    double(jnp.ones(3))
    assert len(traces) == 2


def test_programs_of_jax_are_kept_where_a_worker_holds_little(monkeypatch, request):
    monkeypatch.setattr(memory, "DROP_ABOVE", 1e6)
    monkeypatch.setattr(memory, "drop_compiled", lambda: pytest.fail("dropped"))
    memory.drop_if_large(request.node, None)


def test_a_worker_that_holds_much_for_good_drops_again_only_when_it_has_grown(monkeypatch, request):
    dropped = []
    held = iter([1.5, 1.4, 1.7, 1.8, 1.4])
    monkeypatch.setattr(memory, "DROP_ABOVE", 1.0)
    monkeypatch.setattr(memory, "_floor", 0.0)
    monkeypatch.setattr(memory, "read_resident", lambda: next(held))
    monkeypatch.setattr(memory, "drop_compiled", lambda: dropped.append(1))
    memory.drop_if_large(request.node, None)  # at 1.5, and 1.4 are left
    memory.drop_if_large(request.node, None)  # at 1.7
    assert len(dropped) == 1
    memory.drop_if_large(request.node, None)  # at 1.8
    assert len(dropped) == 2


def test_programs_of_jax_are_dropped_between_files_where_the_system_does_not_tell(monkeypatch, tmp_path):
    dropped = []
    monkeypatch.setattr(memory, "_RESIDENT", tmp_path / "statm")
    monkeypatch.setattr(memory, "drop_compiled", lambda: dropped.append(1))
    first, second = (SimpleNamespace(path=tmp_path / name, nodeid=name) for name in "ab")
    memory.drop_if_large(first, first)
    assert not dropped
    memory.drop_if_large(first, second)
    assert dropped


def test_this_worker_stays_below_the_bound():
    assert 0.1 < memory.read_peak() < memory.BOUND


def test_a_run_fails_if_a_worker_has_passed_the_bound(monkeypatch):
    monkeypatch.setattr(memory, "peaks", [])
    monkeypatch.setattr(memory, "_output", None)
    memory.collect({memory.PEAK: (2.4, "a")})
    memory.collect({})
    memory.judge()
    memory.collect({memory.PEAK: (2.6, "b")})
    with pytest.raises(
        pytest.exit.Exception, match=r"a worker held 2.6 GB, more than 2.5 GB, in b\. A test"
    ) as left:
        memory.judge()
    assert left.value.returncode == 1


def test_a_worker_hands_its_peak_over(monkeypatch, request):
    output = {}
    monkeypatch.setattr(memory, "_output", output)
    monkeypatch.setattr(memory, "_peak", (0.0, ""))
    monkeypatch.setattr(memory, "drop_compiled", lambda: None)
    memory.drop_if_large(request.node, None)
    memory.hand_over()
    peak, test = output[memory.PEAK]
    assert 0.1 < peak <= memory.read_peak()
    assert test == request.node.nodeid


@pytest.mark.slow
def test_a_run_with_workers_reports_the_peak_and_fails_above_the_bound(tmp_path):
    run = partial(subprocess.run, cwd=ROOT, capture_output=True, text=True, check=False)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "low_bound",
    ]
    (tmp_path / "low_bound.py").write_text(
        "from tests import memory; memory.BOUND = float(__import__('os').environ['BOUND'])"
    )
    for bound, expected in (("9", 0), ("0.01", 1)):
        environment = {
            **os.environ,
            "BOUND": bound,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            "OPLIB_TEST_SHARE": "1",
        }
        done = run([*command, "tests/test_xla_flags.py"], env=environment)
        assert done.returncode == expected, done.stdout + done.stderr
        assert "peak memory of a worker: 0." in done.stdout
        assert ("more than 0.01 GB" in done.stderr) == bool(expected)


@pytest.mark.parametrize(
    ("cores", "available", "expected"),
    [(8, 16.0, 5), (2, 24.0, 2), (4, 1.0, 1), (8, None, 8), (1, 64.0, 1)],
)
def test_a_machine_has_no_more_workers_than_its_memory_is_enough_for(cores, available, expected):
    assert workers.count_workers(cores, available) == expected


def test_this_machine_has_a_worker():
    assert workers.count_workers(workers.count_cores(), workers.read_available()) >= 1
