"""The end of the tape inside a traced function: what was recorded outside does not run inside."""

from __future__ import annotations

from typing import Any

import jax

from oplib.autograd.nodes.backward_run import BackwardRun
from oplib.autograd.nodes.node import Gradients, TapeNode
from oplib.errors import TracingError

_new: Any = object.__new__


class Boundary(TapeNode):
    """Stands for the history of a Tensor from outside. A gradient may be asked for there, and ends there.

    Attributes:
        message: of the error where a backward runs the node.
    """

    has_one_slot = True
    results_are_checked = True
    follows_jax = True
    message: str

    @staticmethod
    def make(spec: Any, message: str) -> Boundary:
        """Makes the end for a Tensor, of which a shape and a dtype are given."""
        node = _new(Boundary)
        node.input_metadata = (jax.ShapeDtypeStruct(tuple(spec.shape), spec.dtype),)
        node.message = message
        return node

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002, D102  described in TapeNode
        raise TracingError(self.message)
