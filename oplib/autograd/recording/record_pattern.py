"""Patterns of recording: the facts shared by all plans of one op, which the fast path uses."""

from __future__ import annotations

from typing import NamedTuple

from oplib.autograd.array_functions.array_function import BackwardPlan, Mask


class Pattern(NamedTuple):
    """The recording of calls that save inputs and outputs, and no intermediates.

    Attributes:
        wanted: for each input, whether its gradient is computed.
        sources: the indices of the saved values among inputs and then outputs.
        differentiable: whether each output carries a gradient.
    """

    wanted: Mask
    sources: tuple[int, ...]
    differentiable: Mask


_known: dict[Pattern, Pattern] = {}


def find_pattern(plan: BackwardPlan) -> Pattern | None:
    """Returns the pattern of a plan; None if it saves intermediates. Equal patterns are one object."""
    if plan.pattern is None and plan.extras is None and None not in plan.outputs:
        count = plan.input_count + len(plan.outputs)
        if all(source < count for source in plan.sources):
            pattern = Pattern(plan.wanted, plan.sources, plan.differentiable)
            plan.pattern = _known.setdefault(pattern, pattern)
    return plan.pattern
