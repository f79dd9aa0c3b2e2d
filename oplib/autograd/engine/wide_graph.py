"""Graphs that were recorded with JAX's 64 bits on run backward with 64 bits on.

Without them each formula would compute in 32 bits. A program that never turns them on reads one attribute for
each pass. A program that has turned them on and off again pays for a walk over the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from oplib.autograd.array_functions.width import wide_plans, x64
from oplib.autograd.nodes.node import TapeNode

_WIDE = frozenset({np.dtype("float64"), np.dtype("complex128")})


def needs_64_bits(roots: Sequence[Any]) -> bool:
    """Whether 64 bits are off, and a graph was recorded with them, or on what they are needed for.

    Args:
        roots: Tensors and gradient edges; what is neither has no graph.
    """
    if not wide_plans.any or x64.value:
        return False
    nodes = [getattr(root, "node", None) or getattr(root, "_grad_fn", None) for root in roots]
    ahead: list[TapeNode] = [node for node in nodes if isinstance(node, TapeNode)]
    reached = set(ahead)
    while ahead:
        node = ahead.pop()
        if _is_wide(node):
            return True
        for edge in node.edges:
            if edge is not None and edge[0] not in reached:
                reached.add(edge[0])
                ahead.append(edge[0])
    return False


def in_its_width(roots: Sequence[Any]) -> AbstractContextManager[object]:
    """Returns what to run a graph backward in: 64 bits, where it needs them."""
    return x64(True) if needs_64_bits(roots) else nullcontext()


def _is_wide(node: Any) -> bool:
    plan = getattr(node, "plan", None)
    if plan is not None and plan.is_wide:
        return True
    return any(one is not None and one.dtype in _WIDE for one in node.input_metadata)
