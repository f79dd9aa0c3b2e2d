"""The width of a backward pass: a graph recorded with JAX's 64 bits on runs backward with 64 bits on.

With 64 bits off each formula would compute in 32 bits. A program that never turns them on reads one attribute
for each pass. A program that has turned them on and off walks over the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oplib.autograd.array_functions.width import wide_plans, x64
from oplib.autograd.nodes.edges import walk_nodes

_WIDE = frozenset({np.dtype("float64"), np.dtype("complex128")})


def needs_64_bits(roots: Sequence[Any]) -> bool:
    """Returns whether 64 bits are off and the graph needs them."""
    if not wide_plans.any or x64.value:
        return False
    nodes = [getattr(root, "node", None) or getattr(root, "_grad_fn", None) for root in roots]
    return any(map(_is_wide, walk_nodes(nodes)))


def _is_wide(node: Any) -> bool:
    plan = getattr(node, "plan", None)
    if plan is not None and plan.is_wide:
        return True
    return any(meta is not None and meta.dtype in _WIDE for meta in node.input_metadata)
