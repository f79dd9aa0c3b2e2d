"""Forked pools, and several processes that save to one path, again and again."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import oplib
from tests.counts import counts
from tests.soak.rounds import repeat

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

POOLS = """
import multiprocessing, random, sys
import oplib

def keep(x):
    return x

def double(x):
    return x * 2

def read(x):
    return x.tolist()

numbers = random.Random(sys.argv[1])
x = oplib.rand(4, 3, requires_grad=True)
(x * 2).sum().backward()
TENSORS = [x, x[1], x.data, x * 2, x.t(), x.grad, x > 0, oplib.ones(0), oplib.tensor(3)]
for _ in range(5):
    chosen = [numbers.choice(TENSORS).detach() for _ in range(numbers.randrange(1, 20))]
    whole = [one.clone() for one in chosen]  # reading a view is a computation
    with multiprocessing.get_context("fork").Pool(numbers.randrange(1, 4)) as pool:
        back = pool.map_async(keep, chosen).get(200)
        assert [one.tolist() for one in back] == [one.tolist() for one in chosen]
        assert pool.map_async(read, whole).get(200) == [one.tolist() for one in whole]
        try:
            pool.map_async(double, chosen).get(200)
            raise AssertionError("it computed")
        except RuntimeError as error:
            assert "'spawn'" in str(error), error
"""

SAVER = """
import random, sys
import oplib

path, seed = sys.argv[1:]
numbers = random.Random(seed)
for _ in range(40):
    size, value = numbers.randrange(1, 5000), numbers.random()
    oplib.save({"values": oplib.full((size,), value), "size": size}, path)
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a script in another process."""
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    """Waits for a process, and raises what it wrote if it failed."""
    try:
        _, errors = process.communicate(timeout=400)
    finally:
        process.kill()
    assert process.returncode == 0, errors


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs os.fork")
def test_forked_pools_get_tensors_and_give_them_back_and_errors_reach_the_parent():
    def run_round(numbers: random.Random) -> None:
        finish(start(POOLS, str(numbers.random())))
        counts["forked pools"] += 5

    repeat("forks", run_round)


def check_file(path: Path) -> None:
    found = oplib.load(path)
    values = found["values"]
    assert values.shape == (found["size"],)
    assert (values == values[0]).all()


def test_processes_that_save_to_one_path_leave_a_whole_file_at_any_time(tmp_path: Path):
    def run_round(numbers: random.Random) -> None:
        path = tmp_path / "model"
        savers = [start(SAVER, str(path), str(numbers.random())) for _ in range(2)]
        while any(saver.poll() is None for saver in savers):
            if path.exists():
                check_file(path)
                counts["files read while processes save"] += 1
        for saver in savers:
            finish(saver)
        check_file(path)
        assert list(tmp_path.iterdir()) == [path]

    repeat("savers", run_round)
