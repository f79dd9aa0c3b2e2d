"""Long runs leave nothing: objects and memory stay flat, and processes made in the middle end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.counts import counts
from tests.soak.long_runs import LOOPS, REFUSED
from tests.soak.rounds import SECONDS, SHARE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs os.fork and /proc/self/statm"),
]

ROUNDS = 20_000
"""Of a loop, at most; a run without a soak does ``LEAST``."""

MOST_OBJECTS = 100
"""By which one type may grow: a twentieth of the least rounds. Caches that a round fills are bounded."""

MOST_KILOBYTES = 1024
"""The loops grow by 20 to 120 after the allocator gave back what is free; that which drops classes by 412."""


@pytest.mark.parametrize("name", LOOPS)
def test_a_long_run_leaves_no_object_and_no_memory(name: str):
    command = [sys.executable, "-m", "tests.soak.long_runs", name, str(ROUNDS), str(SECONDS * SHARE / 2)]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS + 1800,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    counts[f"rounds of {name}"] += found["rounds"]
    assert (found["fork"], found["spawn"]) == (REFUSED, 0)
    assert {kind: count for kind, count in found["objects"].items() if count > MOST_OBJECTS} == {}
    assert found["kilobytes"] <= MOST_KILOBYTES
