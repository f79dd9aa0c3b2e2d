"""One call of a Function: its arguments, and whether it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.tangents import find_tangents
from oplib.modes import ModeState, modes
from oplib.tensor import Tensor

from .trees import Specs


class FunctionCall:
    """The facts of one ``apply`` that are known before its forward runs.

    Attributes:
        inputs: the Tensors among the arguments.
        argument_count: the number of arguments.
        specs: the structures of arguments that are containers of Tensors.
        flags: for each flat argument whether it is a Tensor.
        sequence_nr: the sequence number of the node.
        recording: whether the call is recorded.
        tangents: the tangents of ``inputs``, or None if the call carries none.
    """

    __slots__ = ("argument_count", "flags", "inputs", "recording", "sequence_nr", "specs", "tangents")

    def __init__(
        self,
        inputs: list[Tensor],
        flags: Sequence[bool],
        argument_count: int,
        specs: Specs,
        state: ModeState,
        *,
        recording: bool,
    ) -> None:
        self.inputs = inputs
        self.argument_count = argument_count
        self.specs = specs
        self.flags = flags
        self.sequence_nr = state.sequence_nr
        self.recording = recording
        level = state.dual_level
        self.tangents: list[Tensor | None] | None = None if level is None else find_tangents(self.inputs)

    def run_below(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs the forward with the tape and forward mode off."""
        state = modes.state
        before = state.grad_enabled, state.forward_enabled
        state.grad_enabled = state.forward_enabled = False
        try:
            return function(*args)
        finally:
            state.grad_enabled, state.forward_enabled = before
