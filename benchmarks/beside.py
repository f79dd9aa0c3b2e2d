"""Runs groups of the benchmark on this checkout and on an older one in turns, and compares row by row.

``python -m benchmarks.beside PATH --only jit views``, where PATH is a checkout of the older commit. Both run
the benchmarks of this checkout. The figure of a row is the smallest ratio of minima that a side reached. Rows
that the older commit refuses, and those after them in their group, are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Prints one line for each row: the figure of the older commit, that of this one, and their ratio."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beside",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("older", type=Path, help="a checkout of the older commit")
    parser.add_argument("--only", nargs="+", required=True, metavar="GROUP")
    parser.add_argument("--turns", type=int, default=3, help="runs of each side")
    options = parser.parse_args()
    older: dict[str, float] = {}
    newer: dict[str, float] = {}
    for turn in range(options.turns):
        sides = [(options.older.resolve(), older), (ROOT, newer)]
        for checkout, figures in sides if turn % 2 else reversed(sides):
            for group in options.only:
                for what, figure in measure(checkout, group).items():
                    figures[what] = min(figure, figures.get(what, math.inf))
    ratios = {what: newer[what] / older[what] for what in newer if what in older}
    for what, ratio in ratios.items():
        print(f"{what:<60} {older[what]:8.3f} {newer[what]:8.3f} {ratio:7.3f}")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        print(f"geometric mean {mean:.3f}, worst {max(ratios.values()):.3f}, of {len(ratios)} rows")
    return 0


def measure(checkout: Path, group: str) -> dict[str, float]:
    """Measures a group in a new process with the library of a checkout, and returns the figures by row."""
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (("oplib", checkout), ("benchmarks", ROOT), ("examples", ROOT), ("tests", ROOT)):
            (Path(folder) / name).symlink_to(source / name)
        output = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "benchmarks", "--quick", "--json", str(output), "--only", group]
        environment = os.environ | {"PYTHONPATH": folder}
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
        if checkout == ROOT:
            done.check_returncode()
        rows = json.loads(output.read_text())
    return {
        f"{row['what']} / {row['control']}": row["ratio_of_minima"]
        for row in rows
        if row.get("ratio_of_minima")
    }


if __name__ == "__main__":
    sys.exit(main())
