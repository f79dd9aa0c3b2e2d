"""Graphs that were recorded with JAX's 64 bits on: they run backward with them on, wherever one asks.

Without them each formula would compute in 32 bits, with a warning of JAX at best. A program that never turns
them on pays one look at an attribute for each pass; one that has, and has turned them off, a walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

from .node import TapeNode

x64: Any = jax.enable_x64  # what ``with`` sets; its value is what holds in this thread
_WIDE = frozenset({np.dtype("float64"), np.dtype("complex128")})


class WidePlans:
    """Whether any call has been planned with 64 bits in this process.

    Attributes:
        any: it has; never taken back.
    """

    any = False


wide_plans = WidePlans()


def note_width() -> bool:
    """Returns whether 64 bits are on, for a plan that is being made."""
    is_wide = bool(x64.value)
    if is_wide:
        wide_plans.any = True
    return is_wide


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
