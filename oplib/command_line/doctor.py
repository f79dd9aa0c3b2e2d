"""``doctor``: the facts about an installation that a report of a problem needs."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

import jax

from oplib.config import config

from .output import CommandError, print_result

_MALLOC = "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"
_VARIABLES = (
    "JAX_PLATFORMS",
    "XLA_FLAGS",
    "JAX_ENABLE_X64",
    "JAX_COMPILATION_CACHE_DIR",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    *_MALLOC,
)
_GIVEN_BACK = f"the system gets their memory back at each call on a CPU; {' and '.join(_MALLOC)} keep it"
_EXTRAS = ("numpy", "optax", "rich", "pytest", "torch")


def add_doctor_commands(commands: Any) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser("doctor", help="versions, devices, settings, known problems")
    command.add_argument(
        "--package",
        metavar="FOLDER",
        help="list what is to be filled in before the package there is published",
    )
    command.set_defaults(run=show_facts)


def show_facts(options: argparse.Namespace) -> int:
    """Prints the facts, and problems that follow from them; or what a package lacks, with the status 1."""
    if options.package is not None:
        lacking = find_placeholders(Path(options.package))
        told = "\n".join(f"  {line}" for line in lacking) or "  Nothing is to be filled in."
        print_result(options, {"package": options.package, "to fill in": lacking}, told)
        return int(bool(lacking))
    facts, problems = collect_facts(), find_problems()
    width = max(map(len, facts))
    lines = [f"  {name:<{width}}  {fact}" for name, fact in facts.items()]
    lines += [f"  ! {problem}" for problem in problems] or ["\n  No known problem."]
    print_result(options, {**facts, "problems": problems}, "\n".join(lines), {"  !": "bold red"})
    return 0


def collect_facts() -> dict[str, str]:
    """Returns versions, devices, settings and variables, by name."""
    devices = jax.devices()
    return {
        "oplib": f"{_find_version('oplib')} at {Path(__file__).parents[1]}",
        "python": f"{platform.python_version()} ({sys.executable})",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        **{name: _find_version(name) for name in ("jax", "jaxlib", "optree", *_EXTRAS)},
        "devices": f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})",
        "processes": str(jax.process_count()),
        "x64": "on" if jax.config.jax_enable_x64 else "off: 64-bit numbers become 32-bit ones",  # pyright: ignore[reportAttributeAccessIssue]
        "compilation cache": str(config.compilation_cache or "none"),
        "config": repr(config),
        **({} if _keeps_memory() else {"arrays above 32 MB": _GIVEN_BACK}),
        **{name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def _keeps_memory() -> bool:
    """Whether freed memory of large arrays is used again, which glibc does for smaller ones only."""
    return platform.libc_ver()[0] != "glibc" or all(name in os.environ for name in _MALLOC)


def find_placeholders(folder: Path) -> list[str]:
    """Returns the lines that ``new`` left to fill in, with their places.

    Raises:
        CommandError: there is no package in the folder.
    """
    if not (folder / "pyproject.toml").is_file():
        raise CommandError(f"{folder} has no pyproject.toml; name the folder of a package")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return [
        f"{path}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if "TODO" in line or "HOST/OWNER" in line
    ]


def find_problems() -> list[str]:
    """Returns the problems that are known from the facts, each with its cure."""
    problems: list[str] = []
    if _find_version("jax") != _find_version("jaxlib"):
        problems.append("jax and jaxlib have different versions. Install the same version of both.")
    if not config.fast_path or not config.compile_kernels:
        problems.append(
            "config.fast_path or config.compile_kernels is off, so eager calls are slow. Set it to True."
        )
    if jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
        problems.append("JAX_DISABLE_JIT is set, so nothing is compiled. Unset it.")
    if jax.config.jax_debug_nans:  # pyright: ignore[reportAttributeAccessIssue]
        problems.append("JAX_DEBUG_NANS is set: every call waits for its result. Unset it for speed.")
    return problems


def _find_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
