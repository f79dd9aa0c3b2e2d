"""The node of a value whose derivative is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oplib.errors import AutogradError

from .node import Gradients, TapeNode

if TYPE_CHECKING:
    from .backward_run import BackwardRun


class Error(TapeNode):
    """A node that raises: a backward that was not recorded would be differentiated.

    Attributes:
        message: the text of the error.
    """

    follows_jax = True  # in the body of control flow it stands for a call that JAX differentiates

    message: str

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:  # noqa: ARG002  nothing is computed
        """Raises."""
        raise AutogradError(self.message)
