"""Installs the packages of the extra ``ecosystem`` one by one, and says which cannot be had and why.

Run it as ``python -m tests.ecosystem.installation`` with the interpreter of the environment. It succeeds
if packages are missing: their tests are skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PIP = [
    sys.executable,
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
]


def read_packages() -> list[str]:
    """Returns the requirements of the extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["optional-dependencies"]["ecosystem"]


def try_install(*requirements: str) -> str | None:
    """Installs requirements beside oplib; returns pip's reason if it cannot."""
    command = [*PIP, "--only-binary=:all:", "--editable", str(ROOT), *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return None
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return (errors or done.stderr.splitlines() or ["pip failed"])[-1].removeprefix("ERROR: ").rstrip(".")


def install(requirements: list[str]) -> dict[str, str]:
    """Installs all at once, or, if that fails, those that can be had.

    Returns:
        The requirements that are not installed, with the reason.
    """
    if try_install(*requirements) is None:
        return {}
    found: list[str] = []
    missing: dict[str, str] = {}
    for requirement in requirements:
        reason = try_install(*found, requirement)  # with those before, whose versions must fit together
        if reason is None:
            found.append(requirement)
        else:
            missing[requirement] = reason
    return missing


def main() -> None:
    """Installs, prints what is missing, and records it for the tests."""
    missing = install(read_packages())
    for requirement, reason in missing.items():
        print(f"not installed: {requirement}: {reason}")
    Path(sys.prefix, "missing_packages.json").write_text(json.dumps(missing))
    if not missing:
        Path(sys.prefix, ".has-packages").touch()  # so that the next run does not ask pip again


if __name__ == "__main__":
    main()
