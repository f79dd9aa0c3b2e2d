"""Builds the sdist and the wheel, and tries each in fresh environments, away from the source tree.

Run it as ``python -m tests.distribution PYTHON...``. The first interpreter gets the lowest versions of the
dependencies that pyproject.toml allows, and some of the tests run there. The others get the newest versions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Collection
from pathlib import Path

import oplib
from tests.documents import ROOT, read_examples

DIST = ROOT / "dist"
PLUGIN = ROOT / "oplib_pytest.py"
_SUFFIXES = {".py", ".pyi", ".typed", ".css", ".js", ".html", ".txt"}
# Enough to see that oplib works with the lowest versions: what calls optree, and what registers with JAX.
LOWEST_TESTS = [
    "tests/pytree",
    "tests/library/jax_primitives",
    "tests/autograd/user_functions/test_trees.py",
]
BOTH_WORLDS = """
import jax, oplib
from fresh_ops import softclip

x = oplib.tensor(0.5493061, requires_grad=True)  # the tanh of it is 0.5
softclip(x).backward()
print(f"{x.grad.item():.2f}", f"{jax.grad(softclip)(0.5493061):.2f}")
"""
LOOK = "import oplib, importlib.metadata as m; print(oplib.__file__, oplib.__version__, m.version('oplib'))"


def read_lowest() -> list[str]:
    """Returns the lowest versions of the dependencies, such as ``optree==0.20``, as pip reads them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [dependency.replace(">=", "==") for dependency in project["dependencies"]]


def list_package_files() -> set[str]:
    """Returns the files that both distributions must have: code, stubs, the marker, styles, templates."""
    files = [PLUGIN, *(file for file in (ROOT / "oplib").rglob("*") if file.suffix in _SUFFIXES)]
    return {file.relative_to(ROOT).as_posix() for file in files}


def find_faults(wheel: Collection[str], sdist: Collection[str]) -> list[str]:
    """Returns what is wrong with the names of the files in the distributions."""
    package = list_package_files()
    faults = [f"the wheel lacks {name}" for name in sorted(package - set(wheel))]
    faults += [f"the sdist lacks {name}" for name in sorted(package - set(sdist))]
    foreign = [name for name in wheel if not name.startswith(("oplib/", "oplib-", PLUGIN.name))]
    return faults + [f"the wheel has {name}" for name in foreign]


def build() -> tuple[Path, Path]:
    """Builds both into dist/, the wheel from the sdist, and returns their paths."""
    for old in DIST.glob("*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def run(*command: str, cwd: Path = ROOT) -> str:
    """Runs a command and returns what it prints; stops where it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def try_out(python: str, folder: Path) -> None:
    """Imports the installed oplib and runs the program of the README with it, away from the source."""
    file, version, distributed = run(python, "-I", "-c", LOOK, cwd=folder).split()
    assert Path(file).is_relative_to(folder), f"imported {file}"
    assert version == distributed == oplib.__version__, f"{version} is distributed as {distributed}"
    for example in read_examples((ROOT / "README.md").read_text()):
        printed = run(python, "-I", "-c", example.code, cwd=folder)
        assert printed == example.output, f"the program of the README prints\n{printed}"
    try_commands(python, folder)


def try_commands(python: str, folder: Path) -> None:
    """Starts a package with the installed command line, and checks its op."""
    run(python, "-m", "oplib", "doctor", cwd=folder)
    run(python, "-m", "oplib", "show", "oplib::sin", cwd=folder)
    run(python, "-m", "oplib", "new", "fresh_ops", cwd=folder)
    checked = run(python, "-m", "oplib", "check", "fresh_ops", "--quick", cwd=folder / "fresh_ops")
    assert "0 failed, 6 passed" in checked, checked
    install = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*install, "wheel", "--no-deps", "--wheel-dir", "wheels", "./fresh_ops", cwd=folder)
    (wheel,) = (folder / "wheels").glob("fresh_ops-*.whl")
    shutil.rmtree(folder / "fresh_ops")
    run(*install, "install", "--no-deps", str(wheel), cwd=folder)
    assert run(python, "-I", "-c", BOTH_WORLDS, cwd=folder).split() == ["0.75", "0.75"]
    run(*install, "uninstall", "--yes", "fresh_ops", cwd=folder)
    shutil.rmtree(folder / "wheels")


def try_distributions(interpreter: str, folder: Path, distributions: tuple[Path, Path], lowest: bool) -> None:
    """Installs each distribution in an environment in which no other oplib is, and tries it."""
    run(interpreter, "-m", "venv", str(folder / "venv"))
    python = str(folder / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for distribution in distributions:
        run(*install, str(distribution), *(read_lowest() if lowest else []))
        try_out(python, folder)
        print(f"{distribution.name}: {run(python, '--version').strip()}, {' '.join(list_installed(python))}")
        if distribution != distributions[-1]:
            run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "oplib")
    if lowest:
        run(*install, "pytest", "hypothesis")
        print(run(python, "-m", "pytest", "-q", "-m", "not slow", *LOWEST_TESTS).splitlines()[-1])


def list_installed(python: str) -> list[str]:
    """Returns the versions of the dependencies that an environment has."""
    names = {requirement.partition("==")[0] for requirement in read_lowest()}
    frozen = run(python, "-m", "pip", "freeze", "--disable-pip-version-check").splitlines()
    return [line for line in frozen if line.partition("==")[0] in names]


def main(interpreters: list[str]) -> None:
    """Builds, checks what is inside, and tries it with each interpreter."""
    wheel, sdist = build()
    with zipfile.ZipFile(wheel) as inside, tarfile.open(sdist) as packed:
        faults = find_faults(inside.namelist(), [name.partition("/")[2] for name in packed.getnames()])
    if faults:
        sys.exit("\n".join(faults))
    for place, interpreter in enumerate(interpreters):
        with tempfile.TemporaryDirectory() as folder:
            try_distributions(interpreter, Path(folder).resolve(), (wheel, sdist), lowest=place == 0)


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])
