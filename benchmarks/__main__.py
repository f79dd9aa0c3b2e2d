"""``python -m benchmarks``: prints the table; the docstring of the package explains it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import benchmarks

from . import (
    accelerator,
    against_torch,
    calls,
    compiled,
    eager,
    first_steps,
    imports,
    maps,
    networks,
    pointwise,
    programs,
    reported,
    scale,
    sizes,
    small,
    steps,
    tape,
    torch_compile,
    views,
    watched,
)
from .recorded import find_worse_twice, format_worse, read_recorded
from .results import describe_machine, name_machine, save, use_cores
from .rounds import Effort
from .table import Row, format_head, format_row, format_summary, format_title

GROUPS = {
    "calls": calls,
    "pointwise": pointwise,
    "torch": against_torch,
    "tape": tape,
    "networks": networks,
    "compiled": compiled,
    "jit": steps,
    "programs": programs,
    "scale": scale,
    "small": small,
    "imports": imports,
    "first-steps": first_steps,
    "eager": eager,
    "views": views,
    "vmap": maps,
    "watched": watched,
    "reported": reported,
    "torch-compile": torch_compile,
    "sizes": sizes,
    "accelerator": accelerator,
}
ON_REQUEST = {"torch-compile", "sizes", "accelerator"}  # take minutes; the last one needs a GPU or TPU
CLOCKS = {"wall": time.perf_counter, "process": time.process_time}


def main() -> int:
    """Measures the requested groups, and returns the exit code."""
    options = read_options()
    use_cores(options.cores)
    effort = Effort(
        seconds=0.3 if options.quick else 2.0,
        least_rounds=1 if options.quick else 5,
        clock=CLOCKS[options.clock],
    )
    recorded = read_recorded() if options.check else {}
    lines: list[str] = []
    groups: dict[str, list[Row]] = {}
    show(lines, describe_machine(clock=options.clock))
    show(lines, format_head())
    for name in options.only or [name for name in GROUPS if name not in ON_REQUEST]:
        show(lines, format_title(GROUPS[name].TITLE))
        groups[name] = []
        try:
            for row in GROUPS[name].measure(effort):
                groups[name].append(row)
                if row.is_printed:
                    show(lines, format_row(row))
        finally:
            rows = [row for group in groups.values() for row in group]
            if options.json:
                options.json.write_text(json.dumps([row.as_json() for row in rows]))
    show(lines, format_summary(rows))
    if options.save:
        print(f"written: {save(options.save, rows, lines)}")
    if not options.check:
        return 0
    worse = find_worse_twice(groups, lambda name: GROUPS[name].measure(effort), recorded)
    print(format_worse(worse, recorded))
    return int(bool(worse))


def show(lines: list[str], line: str) -> None:
    """Prints a line at once, and stores it."""
    print(line, flush=True)
    lines.append(line)


def read_options() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=benchmarks.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="less than a minute; for a first look")
    parser.add_argument(
        "--only", nargs="+", choices=GROUPS, metavar="GROUP", help=f"some of {', '.join(GROUPS)}"
    )
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="'process' counts processor time")
    parser.add_argument(
        "--cores", type=int, default=1, help="that all may use, torch as well; 1 if not given, 0 for all"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 if a row is more than 1.15 of its recorded figure, and in a second run too",
    )
    parser.add_argument(
        "--save",
        metavar="NAME",
        nargs="?",
        const=name_machine(),
        help="write the table into benchmarks/results/<date>-NAME; by default named after the machine's kind",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows into a file too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
