"""``new``: a package with one op that can be published: tests, types, a page, a benchmark, CI."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.util
import keyword
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any

from .output import CommandError, print_result

TEMPLATE = Path(__file__).parent / "template"
LICENSES = Path(__file__).parent / "licenses"


def add_new_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser("new", help="a package with one op, tests, types, a page, a benchmark, CI")
    command.add_argument("name", help="the name of the package, which is also the namespace of its ops")
    command.add_argument(
        "--license",
        choices=sorted(path.stem for path in LICENSES.iterdir()),
        help="write this licence; without it the package has none, and a TODO says so",
    )
    command.set_defaults(run=make_package)


def make_package(options: argparse.Namespace) -> int:
    """Writes the package into a new folder, and draws the picture of its page.

    Raises:
        CommandError: the name cannot be a package, is that of an installed one, or the folder exists.
    """
    name: str = options.name
    _check_name(name)
    try:
        written = [*write_files(name, options.license), _draw(Path(name))]
    except BaseException:
        shutil.rmtree(name, ignore_errors=True)  # so that it can be tried again
        raise
    lines = [f"  {path}" for path in written]
    lines.append(f"\nNext:\n    cd {name}\n    python -m pip install -e '.[test]'\n    python -m pytest")
    lines.append("    python -m oplib doctor --package .")
    value = {"package": name, "files": [path.as_posix() for path in written]}
    print_result(options, value, "\n".join(lines))
    return 0


def write_files(name: str, licence: str | None) -> list[Path]:
    """Writes the files of a package into a folder of its name, and returns their paths."""
    told = '# TODO: choose a license, such as license = "MIT", and write the file LICENSE'
    files = {source.relative_to(TEMPLATE).as_posix(): source for source in sorted(TEMPLATE.rglob("*.txt"))}
    if licence:
        told = f'license = "{licence}"\nlicense-files = ["LICENSE"]'
        files["LICENSE.txt"] = LICENSES / f"{licence}.txt"
    values = {"name": name, "license": told, "year": dt.datetime.now().astimezone().year}
    written = [Path(name, relative.removesuffix(".txt").replace("NAME", name)) for relative in files]
    for path, source in zip(written, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(source.read_text()).substitute(values))
    return written


def _check_name(name: str) -> None:
    if not _can_name(name):
        proposed = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_") or "ops"
        proposed = proposed if _can_name(proposed) else f"my_{proposed}"
        raise CommandError(
            f"{name!r} cannot be the name of a package; use small letters, digits and underscores, "
            f"such as {proposed}"
        )
    if Path(name).exists():
        raise CommandError(f"{name} exists already; choose another name")
    if importlib.util.find_spec(name) is not None:
        raise CommandError(
            f"{name!r} is the name of an installed package, which the new one would hide; choose another name"
        )


def _can_name(name: str) -> bool:
    is_word = bool(re.fullmatch("[a-z][a-z0-9_]*", name)) and not keyword.iskeyword(name)
    return is_word and name not in ("oplib", *(path.name for path in TEMPLATE.iterdir()))


def _draw(target: Path) -> Path:
    """Draws the picture of the page of the op in a process that has the new package and this oplib."""
    paths = [str(Path(__file__).parents[2]), ".", *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "oplib", "graph", "docs/picture.py:loss", "--run", "-o"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [*command, "docs/softclip.svg"],
        cwd=target,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(f"the picture of {target} cannot be drawn: {done.stderr}")
    return target / "docs" / "softclip.svg"
