"""Checkpoints of the GPT by orbax: a run that is killed goes on exactly, also on another mesh."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.documents import ROOT
from tests.ecosystem.packages import require

for package in ("orbax.checkpoint", "optax", "matplotlib.figure", "tqdm"):
    require(package)

SCRIPT = str(ROOT / "examples" / "lm" / "train_gpt.py")
STEPS, SAVED = 40, 3


def make_command(out: Path, *options: str) -> list[str]:
    sizes = (f"--steps={STEPS}", f"--save-every={SAVED}", "--batch=8", "--sample=3")
    return [sys.executable, SCRIPT, *sizes, f"--out={out}", *options]


def read_losses(out: Path) -> np.ndarray:
    return np.loadtxt(out / "losses.txt")


def test_a_killed_run_goes_on_to_the_bit_and_on_another_mesh(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(make_command(whole, "--mesh=data=4"), check=True)
    with subprocess.Popen(make_command(killed, "--mesh=data=4")) as process:
        try:
            wait_for(killed / "checkpoints" / str(SAVED), process)
        finally:
            process.send_signal(signal.SIGKILL)
    assert not (killed / "losses.txt").exists()
    elsewhere = tmp_path / "elsewhere"
    subprocess.run(["cp", "-r", str(killed), str(elsewhere)], check=True)

    subprocess.run(make_command(killed, "--mesh=data=4"), check=True)
    np.testing.assert_array_equal(read_losses(killed), read_losses(whole))
    subprocess.run(make_command(elsewhere, "--mesh=data=2,model=2", "--fsdp"), check=True)
    np.testing.assert_allclose(read_losses(elsewhere), read_losses(whole), rtol=1e-5)
    np.testing.assert_array_equal(read_losses(elsewhere)[:SAVED], read_losses(whole)[:SAVED])


def wait_for(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Waits until a checkpoint is complete: orbax gives the folder its name at the end."""
    deadline = time.monotonic() + 600
    while not folder.exists():
        assert process.poll() is None, "the run ended before its first checkpoint"
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.01)
