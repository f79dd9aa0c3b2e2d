"""The width of a backward pass: a graph recorded with JAX's 64 bits on runs backward with 64 bits on.

With 64 bits off each formula would compute in 32 bits. A program that never turns them on reads one attribute
for each pass. A program that has turned them on and off, such as one that calls gradcheck, walks over the
graph: the walk is one plain loop, and reads one fact of each node that has a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oplib.autograd.array_functions.width import WIDE, x64


def needs_64_bits(roots: Sequence[Any]) -> bool:
    """Returns whether 64 bits are off and the graph needs them. Callers ask ``wide_plans`` first."""
    if x64.value:
        return False
    ahead: Any = [(getattr(root, "_grad_fn", None) or getattr(root, "node", None),) for root in roots]
    seen: Any = {None}
    for edge in ahead:  # the list gets longer
        if edge is None or edge[0] in seen:
            continue
        node = edge[0]
        seen.add(node)
        plan = getattr(node, "plan", None)
        if plan is not None:
            if plan.is_wide:
                return True
        elif node.runs_at_arrival:
            if node.variable._storage.array.aval.dtype in WIDE:
                return True
        elif not node.results_are_checked:  # nodes of views have the dtypes of those behind them
            for slot in node.input_metadata:
                if slot is not None and slot.dtype in WIDE:
                    return True
        ahead += node.edges
    return False
