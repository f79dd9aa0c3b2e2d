"""The first steps of a command; ``oplib/__init__.py`` imports this module before the rest of the library.

Ctrl-C ends the process in one line. A file of the current folder, such as ``jax.py``, hides no module.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from types import FrameType


def end_process(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  as a signal calls it
    """Ends the process: an exception might be caught by code that is being imported."""
    os.write(2, b"oplib: interrupted\n")
    os._exit(130)


def _start() -> None:
    argument = sys.argv[0] if sys.argv else ""
    is_module = argument == "-m" and ("-m", "oplib") in pairwise(sys.orig_argv)  # it is not yet found
    if is_module and not sys.flags.safe_path:
        del sys.path[0]  # the current folder, which load_module adds again
    is_script = argument.endswith(("/oplib", "\\oplib.exe")) and os.path.isfile(argument)  # noqa: PTH113  an early import
    is_command = is_module or is_script
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, end_process)


_start()
