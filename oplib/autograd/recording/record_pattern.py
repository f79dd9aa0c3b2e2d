"""What the plans of one op have in common, whatever the shapes: the fast path repeats recording for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from oplib.autograd.array_functions.array_function import BackwardPlan, Mask, make_gather


class Pattern(NamedTuple):
    """How calls are recorded that save inputs and outputs, and no intermediates.

    Attributes:
        wanted: for each input, whether its gradient is computed.
        sources: what is saved, as places of inputs and then outputs.
        differentiable: for each output, whether it carries a gradient.
    """

    wanted: Mask
    sources: tuple[int, ...]
    differentiable: Mask

    @property
    def pick(self) -> Callable[[Any], Any]:
        """Takes what is saved out of inputs and outputs."""
        return make_gather(self.sources)


_known: dict[Pattern, Pattern] = {}


def find_pattern(plan: BackwardPlan) -> Pattern | None:
    """Returns the pattern of a plan, one object for equal ones; None where it saves intermediates."""
    if plan.pattern is None and plan.extras is None and None not in plan.outputs:
        count = plan.input_count + len(plan.outputs)
        if all(source < count for source in plan.sources):
            found = Pattern(plan.wanted, plan.sources, plan.differentiable)
            plan.pattern = _known.setdefault(found, found)
    return plan.pattern
