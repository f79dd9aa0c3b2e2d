"""``new``: a package with one op, its tests, a benchmark, a README and a file for continuous integration."""

from __future__ import annotations

import argparse
import importlib.util
import keyword
from pathlib import Path
from string import Template
from typing import Any

from .output import CommandError

TEMPLATE = Path(__file__).parent / "template"


def add_new_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser("new", help="a package with one op, tests, a benchmark, a README")
    command.add_argument("name", help="the name of the package, which is also the namespace of its ops")
    command.set_defaults(run=make_package)


def make_package(options: argparse.Namespace) -> int:
    """Writes the package into a new folder.

    Raises:
        CommandError: the name cannot be a package, is that of an installed one, or the folder exists.
    """
    name: str = options.name
    if not name.isidentifier() or keyword.iskeyword(name) or name == "oplib":
        raise CommandError(
            f"{name!r} cannot be the name of a package; use small letters, digits and underscores"
        )
    target = Path(name)
    if target.exists():
        raise CommandError(f"{target} exists already; choose another name")
    if importlib.util.find_spec(name) is not None:
        raise CommandError(
            f"{name!r} is the name of an installed package, which the new one would hide; choose another name"
        )
    for source in sorted(TEMPLATE.rglob("*.txt")):
        relative = source.relative_to(TEMPLATE).as_posix().removesuffix(".txt").replace("NAME", name)
        path = target / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(source.read_text()).substitute(name=name))
        print(f"  {path}")
    print(f"\nNext:\n    cd {name}\n    python -m pip install -e '.[test]'\n    python -m pytest")
    return 0
