"""``ops`` and ``show``: the rules that ops have."""

from __future__ import annotations

import argparse
from typing import Any

from oplib.library.op_objects.description import Status
from oplib.library.op_objects.overload import find_overload
from oplib.testing.samples import Call, samples
from oplib.visual.rules import OpsTable, tabulate_rules

from .output import load_module, load_ops, print_result, write_file

_COLORS = {
    Status.registered.value: "bold blue", Status.derived.value: "blue", Status.host.value: "yellow",
    Status.refused.value: "bold red", Status.missing.value: "bright_black",
}  # fmt: skip


def add_tables_commands(commands: Any) -> None:
    """Adds the commands to the parser."""
    table = commands.add_parser("ops", help="the table of rules of ops; built-in ones without a namespace")
    table.add_argument("namespace", nargs="?", help="whose ops; all if left out")
    table.add_argument("--module", metavar="M", help="a file or module to import before, which registers ops")
    table.add_argument("--html", metavar="FILE", help="write the table as a page")
    table.set_defaults(run=show_ops)
    show = commands.add_parser("show", help="schema, rules and samples of one op")
    show.add_argument("op", metavar="NS::OP", help="the qualified name")
    show.add_argument("--module", metavar="M", help="a file or module to import before")
    show.set_defaults(run=show_op)


def show_ops(options: argparse.Namespace) -> int:
    """Prints the table of rules."""
    if options.module is not None and options.namespace is None:
        table = OpsTable([op.describe() for op in load_ops(options.module)])
    else:
        if options.module is not None:
            load_module(options.module)
        table = tabulate_rules(options.namespace)
    if options.html is not None:
        write_file(options.html, table.html())
    print_result(options, table.to_json(), str(table), _COLORS)
    return 0


def show_op(options: argparse.Namespace) -> int:
    """Prints the description of one op, and a call of it."""
    if options.module is not None:
        load_module(options.module)
    op = find_overload(options.op, subject="show")
    call = next(iter(samples(op)), Call(()))
    description = op.describe(*call.args, **call.kwargs)  # by a sample, so that a refused forward mode shows
    text = str(description)
    if call.args or call.kwargs:
        values = [*map(_tell, call.args), *(f"{name}={_tell(value)}" for name, value in call.kwargs.items())]
        text += f"\n\nA call:\n    oplib.ops.{op}({', '.join(values)})"
    print_result(options, description.to_json(), text, _COLORS)
    return 0


def _tell(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"oplib.randn({', '.join(map(str, shape))})"
    return f"[{', '.join(map(_tell, value))}]" if isinstance(value, (list, tuple)) else repr(value)
