"""Costs that grow with a program: its parameters, lists, layers, files and nodes."""

from __future__ import annotations

from collections.abc import Iterator

from . import large_files, long_lists, many_nodes, many_parameters, scanned_layers, steps
from .rounds import Effort
from .table import Row

TITLE = "what grows: parameters, lists, layers, files, nodes"


def measure(effort: Effort) -> Iterator[Row]:
    """Yields the rows of each kind of growth; those of nodes last, because they leave a large heap."""
    for part in (many_parameters, long_lists, scanned_layers, large_files):
        yield from part.measure(effort)
    yield from steps.measure_chain_outside(effort)
    yield from many_nodes.measure(effort)
