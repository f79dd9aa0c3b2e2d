"""The parser of the command line, and what an error looks like there."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.metadata import version

from oplib.errors import OplibError

from .checking import add_check_commands
from .completion import add_completion_command
from .doctor import add_doctor_commands
from .measuring import add_measuring_commands
from .new_package import add_new_commands
from .output import CommandError, only_json
from .picture import add_graph_command
from .tables import add_tables_commands

Command = Callable[[argparse.Namespace], int]


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands."""
    parser = argparse.ArgumentParser(prog="oplib", description="Look at ops, check them, and start new ones.")
    parser.add_argument("--version", action="version", version=f"oplib {version('oplib')}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (
        add_tables_commands,
        add_check_commands,
        add_graph_command,
        add_measuring_commands,
        add_doctor_commands,
        add_new_commands,
        add_completion_command,
    ):
        add(commands)
    for command in commands.choices.values():
        command.add_argument("--json", action="store_true", help="print for other programs")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0, 1 if a check failed, 2 after an error, 130 after Ctrl-C.

    Args:
        arguments: the words of the command line; None for those of the process.
    """
    if sys.stdout is None:  # the process began without one
        print("oplib: the output is closed", file=sys.stderr)
        return 2
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # the marks of tables are not in every encoding
    options = make_parser().parse_args(arguments)
    try:
        with only_json() if options.json else nullcontext():
            status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print("oplib: the output was closed", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("oplib: interrupted", file=sys.stderr)
        return 130  # as a shell says of a process that SIGINT has ended
    except (OplibError, CommandError, OSError) as error:
        print(f"oplib: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return status
