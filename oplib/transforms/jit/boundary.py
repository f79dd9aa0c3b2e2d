"""The end of the tape inside a compiled function: what was recorded outside does not run inside."""

from __future__ import annotations

from typing import Any

import jax

from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Gradients, TapeNode
from oplib.errors import TracingError, describe
from oplib.tensor import Tensor

_new: Any = object.__new__


class Boundary(TapeNode):
    """Stands for the node of an operand that was recorded before the call.

    Attributes:
        place: how the function leads to the operand, for errors.
    """

    has_one_slot = True
    results_are_checked = True
    follows_jax = True
    place: str
    function: str

    @staticmethod
    def make(tensor: Tensor, function: str, place: str) -> Boundary:
        """Makes the node that stands for that of a Tensor."""
        node = _new(Boundary)
        spec = tensor._storage.spec
        node.input_metadata = (jax.ShapeDtypeStruct(tuple(spec.shape), spec.dtype),)
        node.function, node.place = function, place
        return node

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102  described in TapeNode
        raise TracingError(
            f"{self.function}: a backward inside the compiled function reaches a node that was recorded "
            f"outside of it. Got {describe(self.input_metadata[0])}, found as {self.place}. Call backward "
            "outside, on what the function returns, or compute that Tensor inside too."
        )
