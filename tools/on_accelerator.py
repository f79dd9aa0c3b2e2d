"""``python -m tools.on_accelerator``: tests and benchmarks on a GPU, in slices of under ten minutes each.

    python -m tools.on_accelerator tests                    every slice of the tests
    python -m tools.on_accelerator benchmarks               every group, written to benchmarks/results
    python -m tools.on_accelerator tests ops-1 attention    some slices
    python -m tools.on_accelerator tests --platform cpu     the same tests on another CPU device

It skips everything, with the reason, where JAX has no such device. Further options go to pytest, or to the
benchmarks.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 600  # seconds of a slice
PARTS = 12  # of the ops: a program takes about half a second to compile for a GPU
JAX_NAMES = {"gpu": "cuda,cpu", "tpu": "tpu,cpu", "cpu": "cpu"}
FOLDER = "tests/accelerators"


@dataclass(frozen=True)
class Slice:
    """A part of the work, which runs in a process of its own.

    Attributes:
        command: the arguments of Python.
        environment: the further variables of the process.
    """

    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def list_tests() -> dict[str, Slice]:
    """Returns the slices of the tests."""
    fast = ("-n", "4", "-m", "not slow and not undrawn")
    arguments = {
        "attention": (f"{FOLDER}/test_attention.py", "tests/builtin/tables/networks"),
        "kernels": ("tests/examples/test_kernels.py", "tests/examples/test_lowering.py"),
        "offload": (f"{FOLDER}/test_offload.py",),
        "matrix": ("tests/library/matrix",),
        "tensor": (*fast, "tests/tensor"),
        "autograd": (*fast, "tests/autograd"),
        "transforms": (*fast, "tests/transforms"),
    }
    exact = {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}  # a GPU multiplies floats of 10 bits by default
    found = {name: Slice(("-m", "pytest", "-q", *given), exact) for name, given in arguments.items()}
    for part in range(1, PARTS + 1):
        own = {**exact, "OPLIB_SLICE": f"{part}/{PARTS}", "OPLIB_OPS_SAMPLES": "all"}
        found[f"ops-{part}"] = Slice(("-m", "pytest", "-q", f"{FOLDER}/test_ops.py"), own)
    return found


def list_benchmarks(machine: str) -> dict[str, Slice]:
    """Returns a slice for each group of benchmarks, which writes its table under the name of the machine."""
    groups = ("accelerator", "calls", "compiled", "networks", "jit", "pointwise")
    return {
        group: Slice(("-m", "benchmarks", "--only", group, "--save", f"{machine}-{group}"))
        for group in groups
    }


def find_device(platform: str) -> tuple[str, str]:
    """Returns the kind of the first device, or an empty text and the reason why there is none."""
    code = "import jax; device = jax.devices()[0]; print(device.platform, device.device_kind)"
    environment = {**os.environ, "JAX_PLATFORMS": JAX_NAMES[platform]}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    found, _, kind = done.stdout.strip().partition(" ")
    if found == platform:
        return re.sub(r"\W+", "-", kind).strip("-").lower(), ""
    lines = done.stderr.strip().splitlines() or [f"it has {found} alone"]
    return "", f"JAX has no {platform} here: {lines[-1][:200]}"


def run_slice(given: Slice, platform: str, arguments: Sequence[str]) -> tuple[str, float]:
    """Runs a slice, and returns its outcome and its seconds."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": JAX_NAMES[platform],
        "OPLIB_ACCELERATOR": platform,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # by default JAX takes most of the memory at once
        **given.environment,
    }
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, *given.command, *arguments],
            cwd=ROOT,
            env=environment,
            timeout=LIMIT,
            check=False,
        )
        outcome = "passed" if done.returncode == 0 else f"failed ({done.returncode})"
    except subprocess.TimeoutExpired:
        outcome = f"stopped after {LIMIT} seconds"
    return outcome, time.perf_counter() - start


def main() -> int:
    """Runs the slices, and returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("what", choices=("tests", "benchmarks"))
    parser.add_argument("slices", nargs="*", metavar="SLICE", help="some of them; all if none is given")
    parser.add_argument("--platform", choices=JAX_NAMES, default="gpu")
    options, arguments = parser.parse_known_args()
    machine, absence = find_device(options.platform)
    known = list_tests() if options.what == "tests" else list_benchmarks(machine)
    if unknown := sorted(set(options.slices) - set(known)):
        parser.error(f"there is no slice {', '.join(unknown)}; there are {', '.join(known)}")
    if absence:
        print(f"{options.what} on an accelerator: skipped. {absence}")
        return 0
    outcomes: dict[str, tuple[str, float]] = {}
    for name in options.slices or known:
        print(f"\n=== {name}", flush=True)
        outcomes[name] = run_slice(known[name], options.platform, arguments)
    print(f"\n{machine}\nslice        seconds  outcome")
    for name, (outcome, seconds) in outcomes.items():
        print(f"{name:12} {seconds:7.0f}  {outcome}")
    return int(any(outcome != "passed" for outcome, _ in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
