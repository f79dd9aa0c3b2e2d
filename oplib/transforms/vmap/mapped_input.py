"""The node of a mapped argument with history, inside of a map."""

from __future__ import annotations

from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Gradients, TapeNode


class MappedInput(TapeNode):
    """Stands for the node of an argument inside of a map. Outside, the gradient of all examples continues."""

    results_are_checked = True
    follows_jax = True
    has_one_slot = True

    def name(self) -> str:  # noqa: D102
        return "oplib::MappedInput"

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102  no edges
        return ()
