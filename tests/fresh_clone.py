"""Runs what the pages and the Makefile tell a reader to run, each in a clone and an environment of its own.

    python -m tests.fresh_clone              all of it, in about 40 minutes
    python -m tests.fresh_clone "make docs"  some
    python -m tests.fresh_clone --draw 1     as many as the number says, drawn by OPLIB_TEST_SEED

The clone has what is committed, and shares nothing with this environment but the cache of pip, so an extra
that lacks a package is found. A command that other stages of ``.ci/run`` run in full does a part of its work.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.distribution import run, try_out
from tests.documents import ROOT
from tests.seed import make_random

PAGES = ("README.md", "CONTRIBUTING.md")
ONE_FILE = "tests/test_errors.py"
PYTHONS = {"lowest": ("3.11",), "newest": ("3.13", "3.12")}
LEFT_OUT = {
    "make check-whole": "it runs .ci/run, which runs this",
    "make clean": "it removes what there is not in a clone",
}
COMMANDS = {
    "make help": "make help",
    "make demo": "make demo",
    "make demo-lm": "make demo-lm ARGS='--steps 2 --save-every 2'",
    "make quick": "make quick",
    "make mutants": "make mutants ARGS='oplib/config.py --count 2'",
    "make test": f"make test ARGS={ONE_FILE}",
    "make test-whole": f"make test-whole ARGS={ONE_FILE}",
    "make test-ops": "make test-ops ARGS='-k sinc-schema'",
    "make test-compiled": "make test-compiled ARGS='-k test_accumulate'",
    "make test-settings": "make test-settings ARGS='-k test_a_policy'",
    "make test-gpu": "make test-gpu",
    "make test-ecosystem": "make test-ecosystem ARGS='-k optax'",
    "make soak": "make soak SOAK_SECONDS=5 ARGS='-k interrupts'",
    "make parity": "make parity ARGS='-k test_grad_mode.py'",
    "make bench": "make bench ARGS='--only calls --quick'",
    "make bench-gpu": "make bench-gpu",
    "make bench-sizes": "make bench-sizes ARGS=--help",  # its table takes minutes
    "make docs": "make docs && test -s out/site/index.html && test -s out/site/docs/index.html",
    "make types": "make types",
    "make dist": "make dist",
    "make lint": "make lint",
    "make format": "make format && git diff --exit-code",
    "make generate": "make generate && git diff --exit-code",
    "make spec": "make spec && test -s docs/inside/spec_status.md",
    "make check": f"make check ARGS={ONE_FILE}",
}
"""How each command is tried."""

_OURS = ("OPLIB_", "PYTHON", "JAX_", "XLA_", "VIRTUAL_ENV", "MAKE", "MFLAGS", "WORKERS", "RANDOM_GRAPHS")


def list_trials() -> dict[str, Callable[[Path], object]]:
    """Returns what is run in a clone, by the name of what a page says."""
    trials: dict[str, Callable[[Path], object]] = {
        name: lambda clone, command=command: run_alone(command, clone) for name, command in COMMANDS.items()
    }
    for age, versions in PYTHONS.items():
        if interpreter := run(".ci/find_python", *versions).strip():
            for what in (".", ".[optim]"):
                trials[f"pip install {what} ({age} Python)"] = (
                    lambda clone, interpreter=interpreter, what=what: install(interpreter, what, clone)
                )
    return trials


def list_told() -> set[str]:
    """Returns the make commands of the pages, and the targets that ``make help`` lists."""
    makefile = (ROOT / "Makefile").read_text()
    told = {f"make {target}" for target in re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE)}
    for page in PAGES:
        text = (ROOT / page).read_text()
        told.update(re.findall(r"(?:`|^)(?:\w+=\S+ )*(make [a-z-]+)", text, re.MULTILINE))
    return told


def list_installations() -> set[str]:
    """Returns what the pages tell a reader to install with pip."""
    texts = [(ROOT / page).read_text() for page in PAGES]
    return {word.strip('"') for text in texts for word in re.findall(r"-m pip install (\S+)", text)}


def run_alone(command: str, clone: Path) -> None:
    """Runs a line of a shell in the clone, without what the environment says of ours."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout[-6000:]}\nfailed with {done.returncode} in a fresh clone")


def install(interpreter: str, what: str, clone: Path) -> None:
    """Installs the clone with pip, as the README says, and tries it in a folder without the source."""
    folder = clone.parent / "elsewhere"
    python = folder / "venv" / "bin" / "python"
    run_alone(f"{shlex.quote(interpreter)} -m venv {python.parent.parent}", clone)
    run_alone(f"{python} -m pip install --quiet --disable-pip-version-check {shlex.quote(what)}", clone)
    try_out(str(python), folder)
    if "optim" in what:
        run(str(python), "-I", "-c", "import oplib, optax; oplib.optim.Optimizer", cwd=folder)


def main() -> None:
    """Runs what is asked for, each in a clone of its own, and prints how long it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="COMMAND", help="some of them; all if none is given")
    parser.add_argument("--draw", type=int, help="as many as this number, drawn by OPLIB_TEST_SEED")
    options = parser.parse_args()
    trials = list_trials()
    if unknown := [name for name in options.names if name not in trials]:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(trials)}")
    names = options.names or list(trials)
    if options.draw:
        names = make_random("fresh clone").sample(names, options.draw)
    sys.exit(sum(not is_right(name, trials[name]) for name in names))


def is_right(name: str, trial: Callable[[Path], object]) -> bool:
    """Runs one in a clone, prints how long it took or what failed, and tells whether it worked."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder).resolve() / "oplib"
        run("git", "clone", "--quiet", str(ROOT), str(clone))
        try:
            trial(clone)
        except SystemExit as failure:
            print(failure)
            return False
    print(f"{time.perf_counter() - start:5.0f} s  {name}", flush=True)
    return True


if __name__ == "__main__":
    main()
