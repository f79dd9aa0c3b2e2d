"""What the plans of one op have in common, whatever the shapes: from it recording can be written out."""

from __future__ import annotations

from typing import NamedTuple

from oplib.autograd.array_functions.array_function import BackwardPlan, Mask


class Pattern(NamedTuple):
    """How calls with one output are recorded.

    Attributes:
        wanted: for each input, whether its gradient is computed.
        sources: what is saved: places of inputs, or the count of inputs for the output.
        differentiable: whether the output carries a gradient.
    """

    wanted: Mask
    sources: tuple[int, ...]
    differentiable: bool


_known: dict[Pattern, Pattern] = {}


def find_pattern(plan: BackwardPlan) -> Pattern | None:
    """Returns the pattern of a plan, one object for equal ones; None where it saves intermediates."""
    is_simple = len(plan.outputs) == 1 and plan.extras is None
    if plan.pattern is None and is_simple and all(source <= plan.input_count for source in plan.sources):
        found = Pattern(plan.wanted, plan.sources, plan.differentiable[0])
        plan.pattern = _known.setdefault(found, found)
    return plan.pattern
