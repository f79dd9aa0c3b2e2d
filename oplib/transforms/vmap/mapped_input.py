"""Where a mapped argument with a history enters the map."""

from __future__ import annotations

from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Gradients, TapeNode


class MappedInput(TapeNode):
    """Stands inside of a map for what made an argument: the gradient goes on outside, for all examples."""

    results_are_checked = True
    has_one_slot = True

    def name(self) -> str:  # noqa: D102
        return "oplib::MappedInput"

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102  its edges lead nowhere
        return ()
