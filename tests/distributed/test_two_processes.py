"""Two processes, with two devices each, that are joined over loopback; one start for all checks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.library.batching_and_sharding.test_sharding_processes import find_free_port

CHECKS = re.findall(r"(?m)^def (check_\w+)", (Path(__file__).parent / "two_processes.py").read_text())


@pytest.mark.slow
@pytest.mark.spec("J.14", "J.19")
def test_what_two_processes_share_is_kept_and_errors_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    command = [sys.executable, "-m", "tests.distributed.two_processes", str(find_free_port())]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    processes = [subprocess.Popen([*command, str(number)], cwd=ROOT, **pipes) for number in range(2)]
    try:
        printed = [process.communicate(timeout=400)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for text in printed:
        assert re.findall(r"s after (check_\w+)", text) == CHECKS, text
    assert len(CHECKS) > 5
