"""``graph``: the picture of the graph that a function of the user builds."""

from __future__ import annotations

import argparse
from typing import Any

from oplib.tensor import Tensor
from oplib.visual.graph import graph

from .output import CommandError, load_module, print_result


def add_graph_command(commands: Any) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser("graph", help="the picture of the graph that a function builds")
    command.add_argument(
        "function", metavar="FILE.py:FUNCTION", help="returns a loss, or a loss and parameters"
    )
    command.add_argument("-o", "--output", metavar="F", help="a .html, .svg, .dot or .txt file")
    command.add_argument(
        "--run", dest="runs_backward", action="store_true", help="run the backward, and show its gradients"
    )
    command.set_defaults(run=draw_graph)


def draw_graph(options: argparse.Namespace) -> int:
    """Writes the picture, or prints the graph as text if no file is named.

    Raises:
        CommandError: the file has no such function, or it returns no Tensor.
    """
    file, _, name = options.function.rpartition(":")
    if not file:
        raise CommandError(f"{options.function} is not of the form FILE.py:FUNCTION")
    function = getattr(load_module(file), name, None)
    if not callable(function):
        raise CommandError(f"{file} has no function {name!r}")
    result: Any = function()
    loss, params = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(loss, Tensor):
        raise CommandError(
            f"{name} returns {type(result).__name__}; it must return a Tensor, or a Tensor and its parameters"
        )
    picture = graph(loss, params, run=options.runs_backward)
    if options.output is None:
        print_result(options, {"graph": str(picture)}, str(picture))
    else:
        path = picture.save(options.output)
        print_result(options, {"file": str(path)}, f"  {path}")
    return 0
