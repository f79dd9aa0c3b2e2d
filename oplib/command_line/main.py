"""The parser of the command line, and what an error looks like there."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from typing import NoReturn

from oplib.errors import OplibError

from .checking import add_check_commands
from .completion import add_completion_command
from .doctor import add_doctor_commands
from .measuring import add_measuring_commands
from .new_package import add_new_commands
from .output import CommandError, find_user_line, only_json
from .picture import add_graph_command
from .start import end_process
from .tables import add_tables_commands

Command = Callable[[argparse.Namespace], int]


class _OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are those of the other commands: one line."""

    def error(self, message: str) -> NoReturn:
        """Raises: the words of the command line are wrong.

        Raises:
            CommandError: always.
        """
        raise CommandError(f"{message}. `{self.prog} --help` shows what it takes")


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands."""
    parser = _OneLineParser(prog="oplib", description="Look at ops, check them, and start new ones.")
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
    try:
        if signal.getsignal(signal.SIGINT) is end_process:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        options = make_parser().parse_args(arguments)
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
    except Exception as error:
        if not (line := find_user_line(error)):  # a defect of oplib keeps its traceback
            raise
        print(f"oplib: {type(error).__name__}: {' '.join(str(error).split())}{line}", file=sys.stderr)
        return 2
    return status
